from __future__ import annotations

import pytest
from support.handwritten import partitioned, value

from gspmd.dialect.errors import AnnotationError, ParseError, Unsupported
from gspmd.dialect.mesh import Mesh
from gspmd.dialect.notation import parse_mesh
from gspmd.transforms.ir.reading import model_of
from gspmd.transforms.ir.signature import Signature, ValueSignature, signature_of, write_signature
from gspmd.transforms.ir.writing import in_memory
from gspmd.transforms.parsing.mlir import new_context, parse_module

MESH = '<["x"=4, "y"=2], device_ids=[7, 6, 5, 4, 3, 2, 1, 0]>'
PLAIN = "module { func.func public @main(%0: tensor<2x3xf32>) -> tensor<2x3xf32> { return %0 : tensor<2x3xf32> } }"


def test_what_is_written_is_read() -> None:
    inputs = ['w: f32[7,3] [{"x"}, {}] donated', 'bf16[5] [{"y", "x":(1)2}]', "complex<f64>[] []"]
    text = partitioned(MESH, inputs, ['loss: f32[7,3] [{"x"}, {}]'], "return %0 : tensor<2x3xf32>")
    mesh = parse_mesh(MESH)
    signature = signature_of(parse_module(text, new_context()))
    assert signature == Signature(
        mesh, tuple(value(v, mesh) for v in inputs), (value('loss: f32[7,3] [{"x"}, {}]', mesh),)
    )
    assert [v.local_shape for v in signature.inputs] == [(2, 3), (2,), ()]


def test_the_module_is_what_pjrt_reads() -> None:
    text = partitioned('<["x"=4]>', ['f32[8] [{"x"}]'], ["f32[2] [{}]"], "return %0 : tensor<2xf32>")
    assert "mhlo.num_partitions = 4 : i32" in text
    assert text.count('mhlo.sharding = "{manual}"') == 2
    assert "gspmd.global_type = tensor<8xf32>" in text


def test_open_dimensions_are_closed_and_the_mesh_is_renamed() -> None:
    mesh = Mesh((("x", 4),), name="other")
    sharding = value('f32[8,3] [{"x"}, {?}]', Mesh((("x", 4),))).sharding
    module = parse_module(PLAIN, new_context())
    entry = ValueSignature((8, 3), "f32", sharding)
    with in_memory(module) as top:
        write_signature(top, Signature(mesh, (entry,), (entry,)))
    assert 'gspmd.sharding = "<@mesh, [{\\22x\\22}, {}]>"' in str(module)


def test_names_come_from_locations_and_from_jax() -> None:
    text = partitioned('<["x"=1]>', ["f32[2] [{}]"], ["f32[2] [{}]"], "return %0 : tensor<2xf32>")
    text = text.replace(": tensor<2xf32> {", ': tensor<2xf32> {jax.result_info = "loss", ')
    text = text.replace("(tensor<2xf32> {", '(tensor<2xf32> {jax.result_info = "loss", ')
    text = text.replace('"{manual}"}) ->', '"{manual}"} loc("params[0]")) ->')
    signature = signature_of(parse_module(text, new_context()))
    assert (signature.inputs[0].name, signature.outputs[0].name) == ("params[0]", "loss")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("gspmd.mesh", "other.mesh", "not a partitioned module; run gspmd partition first"),
        ("gspmd.sharding", "other.sharding", "argument 0 has no 'gspmd.sharding'"),
        ("gspmd.global_type", "other.type", "argument 0 has no 'gspmd.global_type'"),
        ("num_partitions = 4", "num_partitions = 8", "'mhlo.num_partitions' is 8, but the mesh"),
        ("= tensor<8xf32>", "= tensor<9xf32>", "argument 0 has type tensor<2xf32>, but a part of tensor<9xf32>"),
        ("= tensor<8xf32>", "= tensor<8xf16>", "is tensor<2xf16>"),
        ("@mesh", "@mesh2", "argument 0: unknown mesh '@mesh2'"),
        ("{\\22x\\22}", "{\\22z\\22}", 'argument 0: mesh "@mesh" has no axis "z"'),
        ("{\\22x\\22}", "", "argument 0: sharding of rank 0 does not fit a tensor of rank 1"),
        ("@main", "@other", "the module has no function '@main'"),
    ],
)
def test_a_module_that_contradicts_itself_is_refused(old: str, new: str, message: str) -> None:
    text = partitioned('<["x"=4]>', ['f32[8] [{"x"}]'], ['f32[8] [{"x"}]'], "return %0 : tensor<2xf32>")
    assert old in text
    with pytest.raises(ParseError) as caught:
        signature_of(parse_module(text.replace(old, new), new_context()))
    assert message in str(caught.value)


def test_an_unpartitioned_module_has_no_signature() -> None:
    with pytest.raises(ParseError, match="not a partitioned module; run gspmd partition first"):
        signature_of(parse_module(PLAIN, new_context()))


def test_dynamic_shapes_are_refused() -> None:
    text = partitioned('<["x"=1]>', ["f32[8] [{}]"], ["f32[8] [{}]"], "return %0 : tensor<8xf32>")
    with pytest.raises(Unsupported, match="expected a tensor of static shape"):
        signature_of(parse_module(text.replace("= tensor<8xf32>", "= tensor<?xf32>"), new_context()))


def test_values_of_another_mesh_are_refused() -> None:
    entry = value('f32[8] [{"x"}]', Mesh((("x", 2),)))
    with pytest.raises(AnnotationError, match=r'argument 0 is sharded over <\["x"=2\]>, but the module\'s mesh'):
        Signature(Mesh((("x", 4),)), (entry,), ())


def test_a_signature_of_another_length_is_refused() -> None:
    top = model_of(parse_module(PLAIN, new_context()))
    with pytest.raises(ParseError, match="signature has 0 'arg_attrs', but '@main' has 1"):
        write_signature(top, Signature(Mesh((("x", 4),)), (), ()))
