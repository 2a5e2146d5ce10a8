"""Groups by axes, as clients of PJRT get them, are the groups that are meant."""

from __future__ import annotations

import dataclasses
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jaxlib import _jax
from jaxlib.mlir import ir

import gspmd
from gspmd.dialect.axes import Axes, Axis, size_of
from gspmd.dialect.group_axes import names_axes, print_group_axes, read_group_axes, write_group_axes
from gspmd.dialect.mesh import Mesh
from gspmd.dialect.notation import print_mesh, symbol
from gspmd.runtime import executable_module, group_check, group_meshes
from gspmd.runtime.group_meshes import groups_by_axes, write_groups
from gspmd.runtime.hlo_groups import groups as groups_of_hlo
from gspmd.runtime.pjrt_mesh import mesh_for
from gspmd.transforms.ir.groups import replica_groups
from gspmd.transforms.ir.modules import codec_of, main_function
from gspmd.transforms.ir.reading import model_of
from gspmd.transforms.ir.writing import in_memory
from gspmd.transforms.parsing.mlir import new_context, parse_module

OLD, NEW = "1.13.7", "1.17.0"  # StableHLO without and with groups by axes
BY_AXES = {"list_groups_up_to": 1}
ADD = """ ({{
  ^bb0(%p: tensor<f32>, %q: tensor<f32>):
    %s = stablehlo.add %p, %q : tensor<f32>
    stablehlo.return %s : tensor<f32>
}})"""
KINDS = {  # attributes, region, elements of the operand and of the result for groups of n devices
    "all_gather": ("all_gather_dim = 0 : i64, use_global_device_ids", "", lambda n: (1, n)),
    "all_reduce": ("use_global_device_ids", ADD, lambda n: (1, 1)),
    "reduce_scatter": ("scatter_dimension = 0 : i64, use_global_device_ids", ADD, lambda n: (n, 1)),
    "all_to_all": (
        "split_dimension = 0 : i64, concat_dimension = 0 : i64, split_count = {n} : i64", "", lambda n: (n, n)
    ),
}  # fmt: skip
Groups = Sequence[tuple[Mesh, Axes]]
Lists = list[list[tuple[int, ...]]]


def collectives(found: Groups, kinds: Sequence[str], functions: str = "") -> ir.Module:
    """A module with a collective of each kind in turn for each of the groups, over meshes by their names."""
    meshes = {mesh.name: mesh for mesh, _ in found}
    arguments, body = [], []
    for i, (mesh, axes) in enumerate(found):
        kind, n = kinds[i % len(kinds)], size_of(axes)
        attributes, region, sizes = KINDS[kind]
        given, made = (f"tensor<{size}xf32>" for size in sizes(n))
        arguments.append(f"%a{i}: {given}")
        body.append(
            f'%{i} = "stablehlo.{kind}"(%a{i}) <{{{attributes.format(n=n)}, replica_groups = '
            f"{print_group_axes(mesh, axes)}, channel_handle = #stablehlo.channel_handle<handle = {i + 1}, type = 1>}}>"
            f"{region.format()} : ({given}) -> {made}"
        )
    text = "\n".join(
        [f"sdy.mesh {symbol(mesh.name)} = {print_mesh(mesh)}" for mesh in meshes.values()]
        + [functions, f"func.func @main({', '.join(arguments)}) {{", *body, "return", "}"]
    )
    return parse_module(text, new_context())


def defined(mesh: Mesh) -> Mesh:
    """The mesh as the module has it, by a name."""
    return dataclasses.replace(mesh, name="devices")


def write_group_meshes(module: ir.Module) -> None:
    """Groups in the form that PJRT gets, along the first of their meshes that has the devices in order."""
    with in_memory(module) as top:
        groups = groups_by_axes(top)
        source = next((mesh for mesh, _ in groups.values() if not mesh.device_ids), Mesh(()))
        write_groups(top, groups, mesh_for(source, (), (axes for over, axes in groups.values() if over == source)))


def meant(found: Groups) -> Lists:
    return [sorted(map(tuple, replica_groups(mesh, axes).tolist())) for mesh, axes in found]


def attributes(module: ir.Module) -> list[ir.Attribute]:
    operations = main_function(model_of(module)).regions[0]
    return [op.attributes["replica_groups"] for op in operations if "replica_groups" in op.attributes]


def listed(module: ir.Module) -> Lists:
    """What the module's groups are, by our own reading."""
    meshes = codec_of(model_of(module)).meshes
    found = []
    for attribute in attributes(module):
        if names_axes(attribute):
            ids = replica_groups(*read_group_axes(attribute, meshes))
        else:
            ids = np.array(ir.DenseIntElementsAttr(attribute), np.int64).reshape(attribute.type.shape)
        found.append(sorted(map(tuple, ids.tolist())))
    return found


def read_by_pjrt(module: ir.Module) -> tuple[Lists, Lists, Lists]:
    """By plugins that know lists alone, by those that know axes, and in HLO; the last in order of their text."""
    with module.context:
        old, new = (
            _jax.mlir.deserialize_portable_artifact(
                _jax.mlir.serialize_portable_artifact(module, version), module.context
            )
            for version in (OLD, NEW)
        )
    hlo = _jax.mlir.mlir_module_to_xla_computation(str(module)).as_hlo_text()
    lines = [line for line in hlo.splitlines() if "replica_groups=" in line]
    assert not any(names_axes(attribute) for attribute in attributes(old))
    return listed(old), listed(new), [sorted(groups_of_hlo(line, 0)) for line in lines]


def check(found: Groups, kinds: Sequence[str] = tuple(KINDS), functions: str = "") -> ir.Module:
    """Every reader finds what is meant."""
    module = collectives(found, kinds, functions)
    with module.context:
        write_group_meshes(module)
    old, new, hlo = read_by_pjrt(module)
    assert old == meant(found)
    assert new == meant(found)
    assert sorted(hlo) == sorted(meant(found))
    return module


X, Y, Z = "xyz"
MESH = Mesh((("x", 12), ("y", 6), ("z", 4)))
CASES: dict[str, list[Axes]] = {
    "whole axes": [(Axis(X, 1, 12),), (Axis(Z, 1, 4), Axis(Y, 1, 6)), (Axis(Y, 1, 6), Axis(Z, 1, 4))],
    "two cuts of one axis": [(Axis(X, 1, 2),), (Axis(X, 1, 4),)],
    "three cuts of one axis": [(Axis(X, 2, 6),), (Axis(X, 4, 3),), (Axis(X, 2, 2),)],
    "cuts of two axes": [(Axis(X, 1, 2), Axis(Z, 2, 2)), (Axis(Y, 3, 2),), (Axis(Z, 1, 2),)],
    "a whole axis beside a part of it": [(Axis(X, 1, 12),), (Axis(X, 1, 3),)],
    "parts that adjoin": [(Axis(X, 1, 2), Axis(X, 2, 6)), (Axis(X, 2, 2), Axis(X, 4, 3)), (Axis(X, 1, 2),)],
    "parts in another order": [(Axis(X, 4, 3), Axis(X, 1, 4)), (Axis(X, 2, 6), Axis(Y, 1, 6), Axis(X, 1, 2))],
    "all devices": [(Axis(Y, 1, 6), Axis(X, 1, 12), Axis(Z, 1, 4)), (Axis(Z, 1, 2),)],
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("case", CASES)
def test_every_collective_joins_the_devices_that_are_meant(case: str, kind: str) -> None:
    module = check([(MESH, axes) for axes in CASES[case]], [kind])
    assert all(map(names_axes, attributes(module)))


def test_cuts_that_do_not_nest_are_lists_beside_groups_by_axes() -> None:
    axes = [(Axis(X, 1, 4),), (Axis(X, 1, 6),), (Axis(X, 4, 3),), (Axis(X, 2, 3),), (Axis(X, 1, 2),), (Axis(Y, 1, 6),)]
    found = attributes(check([(MESH, each) for each in axes]))
    assert [names_axes(each) for each in found] == [True, False, True, False, True, True]


def test_groups_over_meshes_in_another_order_are_lists() -> None:
    other = Mesh(MESH.axes, tuple(reversed(range(MESH.size))), "other")
    axes = CASES["two cuts of one axis"]
    found = attributes(check([(mesh, each) for each in axes for mesh in (other, MESH)]))
    assert [names_axes(each) for each in found] == [False, True, False, True]


@st.composite
def random_groups(draw: st.DrawFn) -> Groups:
    """Over one mesh or two, along parts of their axes in any order; several in a module."""
    sizes = draw(st.sampled_from([(8,), (6, 4), (2, 3, 4), (12, 2), (16, 1, 3), (4, 4, 2)]))
    meshes = [Mesh(tuple(zip(("x", "x.2", "a b"), sizes, strict=False)))]
    if draw(st.booleans()):
        meshes.append(Mesh((("w", meshes[0].size),), tuple(draw(st.permutations(range(meshes[0].size)))), "axes"))
    found = []
    for _ in range(draw(st.integers(2, 6))):
        mesh = draw(st.sampled_from(meshes))
        parts = []
        for name, size in mesh.axes:
            cut = draw(st.sampled_from([k for k in range(1, size + 1) if size % k == 0]))
            parts += [part for part in (Axis(name, 1, cut), Axis(name, cut, size // cut)) if part.size > 1]
        found.append((mesh, tuple(draw(st.lists(st.sampled_from(parts), min_size=1, unique=True)))))
    return found


@settings(max_examples=60, deadline=None)
@given(random_groups(), st.permutations(list(KINDS)))
def test_groups_of_any_module_are_those_that_are_meant(found: Groups, kinds: list[str]) -> None:
    check(found, kinds)


def test_names_of_users_may_be_any() -> None:
    names = ["a b", 'a"b', "a\\b", "a{b}", "x", "x.2", "é", "'", "axis"]
    mesh = Mesh(tuple((name, 4 if i < 4 else 2) for i, name in enumerate(names)), name='me "sh"\\')
    axes = [(Axis(name, 1, size),) for name, size in mesh.axes] + [(Axis(name, 2, 2),) for name in names[:3]]
    assert all(map(names_axes, attributes(check([(mesh, each) for each in axes], ["all_reduce"]))))


@pytest.mark.parametrize("name", ["mesh", "mesh_0", "groups_0"])
def test_symbols_of_users_may_be_any(name: str) -> None:
    functions = "\n".join(f"func.func private @{name}{end}() {{ return }}" for end in ("", "_0", "_1"))
    mesh = Mesh(MESH.axes, name=f"{name}_2")
    check([(mesh, axes) for axes in CASES["two cuts of one axis"]], functions=functions)


def test_groups_along_axes_that_are_not_there_are_refused() -> None:
    module = collectives([(MESH, (Axis(X, 1, 2),)), (MESH, (Axis(Y, 1, 6),))], ["all_gather"])
    with module.context:
        module.body.operations[0].erase()
        with pytest.raises(gspmd.Error, match="over mesh '@mesh', which the module does not have"):
            write_group_meshes(module)


def test_versions_with_groups_by_axes_do_not_grow_with_devices() -> None:
    sizes = []
    for count in (8, 128):
        mesh = Mesh((("x", 16), ("y", count)))
        module = check([(mesh, (Axis(X, 2, 4),)), (mesh, (Axis(X, 1, 2),))])
        sizes.append(len(_jax.mlir.serialize_portable_artifact(module, NEW)))
    assert sizes[1] <= sizes[0] + 8


# ---- the check ------------------------------------------------------------------------------------


def test_a_client_that_reads_other_groups_is_an_error() -> None:
    context = new_context()
    cut = Mesh((("x", 2), ("x.2", 4)), name="")
    one, other = ((Axis("x", 1, 2),), (Axis("x.2", 1, 4),))
    pairs = [(write_group_axes(cut, axes, context), replica_groups(cut, axes)) for axes in (one, other)]
    group_check.check_groups(pairs, defined(cut), context)
    backwards = Mesh(cut.axes, tuple(reversed(range(8))), "")  # what jaxlib forgets
    pairs[1] = (pairs[1][0], replica_groups(backwards, other))
    with pytest.raises(gspmd.InternalError, match=r"jaxlib lets plugins of PJRT read replica groups .*; expected") as e:
        group_check.check_groups(pairs, defined(cut), context)
    assert "list-groups-up-to' of 8" in str(e.value.hint)


def test_the_order_within_a_group_counts() -> None:
    context, mesh = new_context(), Mesh((("x", 2), ("y", 4)), name="")
    x, y = Axis("x", 1, 2), Axis("y", 1, 4)
    pairs = [(write_group_axes(mesh, (x, y), context), replica_groups(mesh, (y, x)))]
    pairs.append((write_group_axes(mesh, (y,), context), replica_groups(mesh, (y,))))
    with pytest.raises(gspmd.InternalError, match="jaxlib lets plugins"):
        group_check.check_groups(pairs, defined(mesh), context)


def test_clients_in_the_process_are_asked_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_check, "groups_of_hlo", lambda line, partitions: ((0, 1),))
    module = collectives([(MESH, axes) for axes in CASES["whole axes"]], ["all_gather"])
    with module.context, pytest.raises(gspmd.InternalError, match="jaxlib lets clients of PJRT read"):
        write_group_meshes(module)


def test_what_jaxlib_says_is_an_error_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise RuntimeError("Unknown axis x")

    monkeypatch.setattr(group_check, "_read_by_plugins", refuse)
    module = collectives([(MESH, axes) for axes in CASES["whole axes"]], ["all_gather"])
    with (
        module.context,
        pytest.raises(gspmd.InternalError, match="does not take groups along mesh axes: Unknown axis x"),
    ):
        write_group_meshes(module)


def test_modules_without_groups_by_axes_are_not_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    monkeypatch.setattr(group_meshes, "check_groups", lambda *arguments: calls.append(arguments))
    for options in ({}, BY_AXES):
        product = gspmd.partition(PART_BESIDE_WHOLE, options=options)
        module, _ = executable_module.read_partitioned(product.module)
        assert str(module).count("sdy.mesh @") == 1
        assert len(calls) == len(options)


# ---- programs -------------------------------------------------------------------------------------

TWO_SUMS = """
sdy.mesh @mesh = <["x"=8]>
func.func public @main(%a: tensor<16384x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>})
    -> (tensor<8192x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x":(2)4}, {}]>},
        tensor<4096x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x":(4)2}, {}]>}) {
  %c = stablehlo.constant dense<0.0> : tensor<f32>
  %r = stablehlo.reshape %a : (tensor<16384x8xf32>) -> tensor<2x8192x8xf32>
  %s = stablehlo.reduce(%r init: %c) applies stablehlo.add across dimensions = [0]
    : (tensor<2x8192x8xf32>, tensor<f32>) -> tensor<8192x8xf32>
  %q = stablehlo.reshape %a : (tensor<16384x8xf32>) -> tensor<4x4096x8xf32>
  %t = stablehlo.reduce(%q init: %c) applies stablehlo.add across dimensions = [0]
    : (tensor<4x4096x8xf32>, tensor<f32>) -> tensor<4096x8xf32>
  return %s, %t : tensor<8192x8xf32>, tensor<4096x8xf32>
}
"""


def resharded(mesh: str, ends: Sequence[tuple[str, str]]) -> str:
    """A program that brings matrices from one sharding to another, each with a name of its own."""
    type_ = "tensor<24x24xi32>"
    arguments = (f"%a{i}: {type_} {{sdy.sharding = #sdy.sharding<@mesh, {a}>}}" for i, (a, _) in enumerate(ends))
    results = (f"{type_} {{sdy.sharding = #sdy.sharding<@mesh, {b}>}}" for _, b in ends)
    values = ", ".join(f"%a{i}" for i in range(len(ends)))
    types = ", ".join([type_] * len(ends))
    return (
        f"sdy.mesh @mesh = <[{mesh}]>\nfunc.func public @main({', '.join(arguments)}) -> ({', '.join(results)}) {{\n"
        f"return {values} : {types}\n}}\n"
    )


WHOLE = "[{}, {}]"
PART_BESIDE_WHOLE = resharded('"x"=4, "y"=2', [('[{"x":(1)2}, {}]', WHOLE), ('[{"x"}, {}]', WHOLE)])
PROGRAMS = {
    "two sums": TWO_SUMS,
    "a part beside the whole": PART_BESIDE_WHOLE,
    "parts that adjoin": resharded(
        '"x"=4, "y"=2', [('[{"x":(1)2}, {"x":(2)2}]', WHOLE), ('[{"x":(1)2}, {}]', WHOLE), ('[{"y"}, {}]', WHOLE)]
    ),
    "cuts that do not nest": resharded(
        '"x"=6', [('[{"x":(1)2}, {}]', WHOLE), ('[{"x":(1)3}, {}]', WHOLE), ('[{"x"}, {}]', WHOLE)]
    ),
    "exchanges": resharded(
        '"x"=8', [('[{"x":(1)2}, {}]', '[{}, {"x":(1)2}]'), ('[{"x":(1)4}, {}]', '[{}, {"x":(1)4}]'),
                  ('[{"x"}, {}]', '[{}, {"x"}]')]
    ),
    "names of our own": resharded(
        '"x"=4, "x.2"=2', [('[{"x":(1)2}, {}]', WHOLE), ('[{"x.2"}, {}]', WHOLE), ('[{"x"}, {}]', WHOLE)]
    ).replace("@mesh", "@groups_0"),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_are_right_with_groups_by_axes(name: str) -> None:
    product = gspmd.partition(PROGRAMS[name], options=BY_AXES)
    assert len(set(re.findall(r"#stablehlo\.replica_group_mesh_axes<.*?\]>", product.module_text))) > 1
    assert gspmd.check(PROGRAMS[name], product)


def test_programs_over_two_device_orders_are_right_with_groups_by_axes() -> None:
    text = resharded('"x"=4, "y"=2', [('[{"x"}, {}]', WHOLE), ('[{"x":(1)2}, {"y"}]', WHOLE)] * 2)
    text = text.replace(
        "func.func", 'sdy.mesh @"an order" = <["x"=4, "y"=2], device_ids=[0, 3, 1, 6, 2, 5, 4, 7]>\nfunc.func'
    )
    parts = text.split("#sdy.sharding<@mesh")
    text = parts[0] + "".join(
        f"#sdy.sharding<@{'mesh' if i % 4 < 2 else chr(34) + 'an order' + chr(34)}{part}"
        for i, part in enumerate(parts[1:])
    )
    product = gspmd.partition(text, options=BY_AXES)
    assert "@order_0, axes" in product.module_text
    assert gspmd.check(text, product)


def test_real_meshes_of_72_to_128_devices() -> None:
    command = [sys.executable, str(Path(__file__).parents[1] / "real_meshes.py"), "--count", "1"]
    finished = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ), timeout=600, check=False)
    assert finished.returncode == 0, finished.stdout + finished.stderr[-2000:]
    groups = [int(count) for count in re.findall(r"(\d+) groups by axes, wrong: \[\]", finished.stdout)]
    assert len(groups) == 4
    assert min(groups) > 1
    assert finished.stdout.count("gspmd.jit: right") == 3
