from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from support.handwritten import value

from gspmd.dialect.errors import InputError, UsageError
from gspmd.dialect.mesh import Mesh
from gspmd.output import write
from gspmd.runtime.inputs import npz, perturbed, random_inputs, read_inputs
from gspmd.transforms.ir.signature import ValueSignature

MESH = Mesh((("x", 2),))


def values(*texts: str) -> tuple[ValueSignature, ...]:
    return tuple(value(text, MESH) for text in texts)


def test_random_inputs_depend_on_seed_and_index_only() -> None:
    few, many = values("f32[50] [{}]"), values("f32[50] [{}]", "f32[50] [{}]")
    (first,) = random_inputs(few, seed=3)
    again, second = random_inputs(many, seed=3)
    np.testing.assert_array_equal(first, again)
    assert (first != second).any()
    assert (first != random_inputs(few, seed=4)[0]).any()


@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize("element_type", ["f32", "f64", "bf16", "f16", "f8E4M3FN", "complex<f32>"])
def test_floats_are_around_zero_or_above(element_type: str, signed: bool) -> None:
    (array,) = random_inputs(values(f"{element_type}[1000] [{{}}]"), signed=signed)
    parts = [array.real, array.imag] if "complex" in element_type else [array]
    for part in parts:
        wide = part.astype(np.float64)
        assert wide.max() <= 1
        assert wide.max() > 0.9
        assert (wide.min() < -0.9) if signed else (0 <= wide.min() < 0.1)


@pytest.mark.parametrize(("element_type", "largest"), [("i32", 7), ("ui8", 7), ("i64", 7), ("i4", 7), ("i2", 1)])
def test_integers_are_small_indices(element_type: str, largest: int) -> None:
    (array,) = random_inputs(values(f"{element_type}[1000] [{{}}]"))
    assert sorted(set(array.astype(int).tolist())) == list(range(largest + 1))


def test_types_with_their_own_ways() -> None:
    bools, scales, scalar = random_inputs(values("i1[100] [{}]", "f8E8M0FNU[100] [{}]", "f32[] []"))
    assert set(bools.tolist()) == {True, False}
    assert np.isfinite(scales.astype(np.float32)).all()
    assert scalar.shape == ()


def test_perturbing_changes_the_last_bit_of_floats_only() -> None:
    arrays = (np.linspace(-1, 1, 9, dtype=np.float32), np.arange(9), np.ones(9, np.complex64), np.array(True))
    changed = perturbed(arrays)
    assert 0 < np.abs(changed[0] - arrays[0]).max() <= 2.4e-7
    assert changed[0][4] == 0
    assert (changed[2] != 1).all()
    assert changed[1] is arrays[1]
    assert changed[3] is arrays[3]


@pytest.mark.parametrize("names", [("0", "1"), ("arg0", "arg1"), ("arr_0", "arr_1"), ("w", "1")])
def test_files_name_arguments_in_several_ways(tmp_path: Path, names: tuple[str, str]) -> None:
    path = tmp_path / "in.npz"
    np.savez(path, **{names[1]: np.arange(3), names[0]: np.arange(4.0)})
    first, second = read_inputs(path, values("w: f64[4] [{}]", "i64[3] [{}]"))
    assert first.tolist() == [0, 1, 2, 3]
    assert second.tolist() == [0, 1, 2]


def test_types_that_numpy_does_not_know_survive_a_file(tmp_path: Path) -> None:
    path = tmp_path / "r.npz"
    arrays = {
        "0": np.arange(4).astype(ml_dtypes.bfloat16),
        "1": np.arange(4).astype(ml_dtypes.float8_e4m3fn),
        "2": np.arange(4).astype(ml_dtypes.int4),
        "3": np.float32(2),
    }
    write(path, npz(arrays))
    read = read_inputs(path, values("bf16[4] [{}]", "f8E4M3FN[4] [{}]", "i4[4] [{}]", "f32[] []"))
    for array, original in zip(read, arrays.values(), strict=True):
        assert array.dtype == original.dtype
        np.testing.assert_array_equal(array, original)


@pytest.mark.parametrize(
    ("stored", "message"),
    [
        ({"0": 1}, "has no array for argument 1: i32[3]; it has 0; call it '1'"),
        ({"w": 1}, "has no array for argument 1: i32[3]; it has w"),
        ({"1": 1}, "has no array for argument 0 'w': f32[4]; it has 1; call it 'w'"),
        ({"0": 1, "1": 1, "2": 1, "x": 1}, "has arrays that are not arguments: 2, x; the program has 2 arguments"),
        ({"0": 1, "1": 1, "w": 1}, "has arrays that are not arguments: w"),
        ({}, "it has none"),
    ],
)
def test_wrong_names_in_a_file(tmp_path: Path, stored: dict[str, Any], message: str) -> None:
    path = tmp_path / "in.npz"
    np.savez(path, **stored)
    with pytest.raises(UsageError) as caught:
        read_inputs(path, values("w: f32[4] [{}]", "i32[3] [{}]"))
    assert message in str(caught.value)


def test_files_that_are_no_archives(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot read '.*none.npz': no such file"):
        read_inputs(tmp_path / "none.npz", ())
    with pytest.raises(InputError, match=r"cannot read .*directory"):
        read_inputs(tmp_path, ())
    np.save(tmp_path / "one.npy", np.zeros(3))
    with pytest.raises(InputError, match=r"is a single array, not an .npz archive; use numpy.savez"):
        read_inputs(tmp_path / "one.npy", ())
    whole = tmp_path / "whole.npz"
    np.savez(whole, **{"0": np.zeros(1000)})
    for name, content in (
        ("empty", b""),
        ("text", b"hello"),
        ("pickle", b"\x80\x04K\x01."),
        ("cut", whole.read_bytes()[:200]),
        ("damaged", whole.read_bytes().replace(b"\x00" * 100, b"\x01" * 100, 1)),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError, match=r"is not an .npz archive"):
            read_inputs(tmp_path / name, values("f64[1000] [{}]"))
    objects = tmp_path / "objects.npz"
    np.savez(objects, **{"0": np.array([{}], dtype=object)})
    with pytest.raises(InputError, match=r"is not an .npz archive"):
        read_inputs(objects, values("f64[1] [{}]"))


def test_results_appear_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "r.npz"
    path.write_bytes(b"old")
    write(path, npz({"0": np.zeros(3)}))
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(InputError, match=r"cannot write .*: is a directory"):
        write(tmp_path, npz({"0": np.zeros(3)}))
    with pytest.raises(InputError, match=r"cannot write .*no such file"):
        write(tmp_path / "none" / "r.npz", npz({"0": np.zeros(3)}))
    assert list(tmp_path.iterdir()) == [path]
