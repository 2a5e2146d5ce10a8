"""Errors of annotations: shardings, meshes, rules, manual computations."""

from __future__ import annotations

from gspmd.dialect.error_codes import Code
from gspmd.dialect.error_pages.page import Example, Page

_PARTITION = "gspmd partition program.mlir"


def _argument(sharding: str, mesh: str = 'sdy.mesh @mesh = <["x"=4]>\n') -> Example:
    """A program whose one argument has the annotation."""
    return Example(
        _PARTITION,
        text=f"""\
{mesh}func.func @main(%a: tensor<8xf32> {{{sharding}}}) -> tensor<8xf32> {{
  return %a : tensor<8xf32>
}}
""",
    )


def _body(*lines: str) -> Example:
    """A program with these operations on its argument."""
    text = "".join(f"  {line}\n" for line in lines)
    return Example(
        _PARTITION,
        text=f"""\
sdy.mesh @mesh = <["x"=4]>
func.func @main(%a: tensor<8xf32>) -> tensor<8xf32> {{
{text}  return %a : tensor<8xf32>
}}
""",
    )


PAGES = (
    Page(
        Code.ANNOTATION,
        "An invalid annotation",
        "The attribute with the annotation of a value has the wrong type or invalid content.",
        _argument("mhlo.sharding = 3 : i32", mesh=""),
        "Correct the attribute as the message says, or let the framework write it.",
    ),
    Page(
        Code.AXIS_UNKNOWN,
        "An unknown mesh axis",
        "A sharding, or an annotation in the API, uses an axis that its mesh does not have.",
        _argument('sdy.sharding = #sdy.sharding<@mesh, [{"q"}]>'),
        "Use an axis of the mesh, or add this axis to the mesh.",
    ),
    Page(
        Code.AXIS_TWICE,
        "A mesh axis that is used twice",
        "Each axis, or each part of an axis, can split only one dimension of a value. With two dimensions split over "
        "the same devices, some parts of the value would be on no device.",
        _argument('sdy.sharding = #sdy.sharding<@mesh, [{"x"}], replicated={"x"}>'),
        "Split one of the dimensions over another axis, or over none.",
    ),
    Page(
        Code.AXIS_PART,
        "An invalid part of a mesh axis",
        'A part "x":(2)4 of an axis has 4 positions and is preceded by a factor of 2. Each number and their product '
        "must divide the size of the axis, and a whole axis is written without them.",
        _argument('sdy.sharding = #sdy.sharding<@mesh, [{"x":(1)3}]>'),
        "Choose sizes that divide the size of the axis, or define the mesh with the axes that you need.",
    ),
    Page(
        Code.RANK,
        "A sharding with the wrong rank, or the wrong number of shardings",
        "A sharding has one entry for each dimension of its tensor, and an operation has one sharding for each result.",
        _argument('sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>'),
        "Give as many entries as the tensor has dimensions; {} is a dimension that is not split.",
    ),
    Page(
        Code.DEVICE_COUNT,
        "Annotations over different numbers of devices",
        "A mesh or a sharding has as many devices as the program has partitions, or a number that divides it.",
        _argument('mhlo.sharding = "{devices=[4]<=[5]}"', mesh=""),
        "Use all devices in every annotation. For a dimension that is not split over some of them, use "
        "last_tile_dim_replicate or an axis that no dimension uses.",
    ),
    Page(
        Code.MESH,
        "An invalid mesh",
        "The axes of a mesh have different names and sizes of at least 1, and its device ids are a permutation of 0, "
        "1, ...",
        Example(
            _PARTITION,
            text="""\
sdy.mesh @mesh = <["x"=4], device_ids=[0, 1, 1, 2]>
func.func @main(%a: tensor<8xf32>) -> tensor<8xf32> {
  return %a : tensor<8xf32>
}
""",
        ),
        "Correct the mesh as the message says.",
    ),
    Page(
        Code.MESH_UNKNOWN,
        "An unknown mesh",
        "A sharding refers to a mesh that no sdy.mesh defines, or it needs a mesh and the program has none.",
        _argument('sdy.sharding = #sdy.sharding<@other, [{"x"}]>'),
        "Define the mesh at the top of the module, or use the name of an existing one.",
    ),
    Page(
        Code.CONTRADICTION,
        "Annotations that contradict each other",
        "Two annotations of one value, or of values that must have the same sharding, differ.",
        _argument('sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>, mhlo.sharding = "{replicated}"'),
        "Keep one of them. If a value is needed with two shardings, annotate two values: a constraint between them "
        "reshards.",
    ),
    Page(
        Code.RULE,
        "An invalid sharding rule",
        "A rule such as ([i, k], [k, j])->([i, j]) reduction={k} marks corresponding dimensions of operands and "
        "results with the same letter. It needs all operands and results, a letter for each of their dimensions, and "
        "one size per letter.",
        Example(
            "gspmd partition program.mlir --custom-rule 'mine=([i, j])->([i, j])'",
            text="""\
sdy.mesh @mesh = <["x"=4]>
func.func @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> tensor<8xf32> {
  %0 = stablehlo.custom_call @mine(%a) : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
""",
        ),
        "Correct the rule; docs/command_line.md has an example, and gspmd-opt --sdy-populate-op-sharding-rules prints "
        "those of operations that Shardy knows.",
    ),
    Page(
        Code.DEVICE_LIST,
        "An invalid list of devices",
        "The devices of a sharding, or in the groups of a collective, are numbers from 0 on, and each occurs once.",
        _argument('mhlo.sharding = "{devices=[4]0,1,1,2}"', mesh=""),
        "List every device of the program once; <=[4] means 0,1,2,3.",
    ),
    Page(
        Code.MANUAL,
        "An invalid annotation of a manual computation",
        "Inside a manual computation the program is per-device along the manual axes, so shardings there cannot use "
        "these axes. The shardings of its operands and results use them.",
        _body(
            '%0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{"x"}]>] out_shardings=[<@mesh, [{"x"}]>] '
            'manual_axes={"x"} (%b: tensor<2xf32>) {',
            '  %1 = stablehlo.sine %b {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}]>]>} : tensor<2xf32>',
            "  sdy.return %1 : tensor<2xf32>",
            "} : (tensor<8xf32>) -> tensor<8xf32>",
        ),
        "Remove the manual axes from shardings inside; other axes are allowed.",
    ),
    Page(
        Code.GROUP,
        "An invalid shard group",
        "A group (sdy.sharding_group, or shard_as) has values of one shape, all inside or all outside a manual "
        "computation.",
        _body(
            "%0 = stablehlo.slice %a [0:4] : (tensor<8xf32>) -> tensor<4xf32>",
            "sdy.sharding_group %a group_id=5 : tensor<8xf32>",
            "sdy.sharding_group %0 group_id=5 : tensor<4xf32>",
        ),
        "Put values of another shape into another group.",
    ),
    Page(
        Code.MARKER,
        "An incomplete marker of a framework",
        "Frameworks write annotations as custom calls and frontend attributes, such as @Sharding with mhlo.sharding. "
        "This one is incomplete, unreadable or unknown.",
        _body("%0 = stablehlo.custom_call @Sharding(%a) : (tensor<8xf32>) -> tensor<8xf32>"),
        "Lower the program again with a tested version of the framework, and do not edit the output.",
    ),
)
