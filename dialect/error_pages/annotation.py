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
        "An annotation that cannot be used",
        "An attribute that annotates a value is of the wrong type, or says what no annotation can say.",
        _argument("mhlo.sharding = 3 : i32", mesh=""),
        "Correct the attribute as the message says, or let the framework write it.",
    ),
    Page(
        Code.AXIS_UNKNOWN,
        "An axis that the mesh does not have",
        "A sharding, or an annotation of the API, names an axis that its mesh does not have.",
        _argument('sdy.sharding = #sdy.sharding<@mesh, [{"q"}]>'),
        "Use an axis of the mesh, or give the mesh this axis.",
    ),
    Page(
        Code.AXIS_TWICE,
        "An axis that is used twice",
        "Each axis of the mesh, or each part of it, can split one dimension of a value: two dimensions split over the "
        "same devices would leave some parts of the value nowhere.",
        _argument('sdy.sharding = #sdy.sharding<@mesh, [{"x"}], replicated={"x"}>'),
        "Split one of the dimensions over another axis, or over none.",
    ),
    Page(
        Code.AXIS_PART,
        "A part of an axis that is none",
        'A part "x":(2)4 of an axis has 4 positions behind 2: both, and their product, have to divide the size of '
        "the axis, and a whole axis is written without them.",
        _argument('sdy.sharding = #sdy.sharding<@mesh, [{"x":(1)3}]>'),
        "Choose sizes that divide that of the axis, or define the mesh with the axes that you need.",
    ),
    Page(
        Code.RANK,
        "A sharding that does not fit the rank, or the number of values",
        "A sharding has one entry for each dimension of its tensor, and operations have one for each result.",
        _argument('sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>'),
        "Give as many entries as the tensor has dimensions: {} is one that is not split.",
    ),
    Page(
        Code.DEVICE_COUNT,
        "Annotations over different numbers of devices",
        "The meshes and the shardings of a program, and its number of partitions, have to be over the same devices, or "
        "over numbers of them that divide it.",
        _argument('mhlo.sharding = "{devices=[4]<=[5]}"', mesh=""),
        "Use all devices in every annotation; a dimension that is not split over some of them is replicated there, "
        "with last_tile_dim_replicate or an axis that no dimension names.",
    ),
    Page(
        Code.MESH,
        "A mesh that cannot be",
        "Axes of a mesh have different names and sizes of at least 1, and its devices are each of 0, 1, ... once.",
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
        "A mesh that the module does not have",
        "A sharding refers to a mesh by a name that no sdy.mesh has, or needs one where there is none.",
        _argument('sdy.sharding = #sdy.sharding<@other, [{"x"}]>'),
        "Define the mesh at the top of the module, or use the name of one that is there.",
    ),
    Page(
        Code.CONTRADICTION,
        "Annotations that contradict each other",
        "Two annotations of one value, or of values that have to be sharded alike, say different things.",
        _argument('sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>, mhlo.sharding = "{replicated}"'),
        "Keep one of them. Where a value is needed in two ways, annotate two values: a constraint between them says "
        "that it is moved.",
    ),
    Page(
        Code.RULE,
        "A sharding rule that is wrong",
        "A rule such as ([i, k], [k, j])->([i, j]) reduction={k} names with letters which dimensions of operands and "
        "results belong together. It has to have all operands and results, with as many letters as these have "
        "dimensions, and each letter has one size.",
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
        "Correct the rule; docs/command_line.md has an example, and gspmd-opt --sdy-populate-op-sharding-rules writes "
        "those of operations that Shardy knows.",
    ),
    Page(
        Code.DEVICE_LIST,
        "A list of devices that is wrong",
        "The devices of a sharding, or the groups of a collective, are numbers from 0 on, each of them once.",
        _argument('mhlo.sharding = "{devices=[4]0,1,1,2}"', mesh=""),
        "List every device of the program once; <=[4] stands for 0,1,2,3.",
    ),
    Page(
        Code.MANUAL,
        "A manual computation that is annotated wrongly",
        "Inside a manual computation the program is that of one device along the manual axes: shardings there cannot "
        "name these axes, and what goes in and out says how it is split over them.",
        _body(
            '%0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{"x"}]>] out_shardings=[<@mesh, [{"x"}]>] '
            'manual_axes={"x"} (%b: tensor<2xf32>) {',
            '  %1 = stablehlo.sine %b {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}]>]>} : tensor<2xf32>',
            "  sdy.return %1 : tensor<2xf32>",
            "} : (tensor<8xf32>) -> tensor<8xf32>",
        ),
        "Leave the manual axes out of shardings inside; axes that are not manual may be used there.",
    ),
    Page(
        Code.GROUP,
        "A group of values that cannot be sharded alike",
        "A group (sdy.sharding_group, or shard_as) holds values of one shape, on one side of a manual computation.",
        _body(
            "%0 = stablehlo.slice %a [0:4] : (tensor<8xf32>) -> tensor<4xf32>",
            "sdy.sharding_group %a group_id=5 : tensor<8xf32>",
            "sdy.sharding_group %0 group_id=5 : tensor<4xf32>",
        ),
        "Put values of another shape into a group of their own.",
    ),
    Page(
        Code.MARKER,
        "A marker of a framework that is incomplete",
        "Frameworks write annotations as custom calls and frontend attributes, such as @Sharding with mhlo.sharding. "
        "This one lacks what it should have, has what cannot be read, or is not known.",
        _body("%0 = stablehlo.custom_call @Sharding(%a) : (tensor<8xf32>) -> tensor<8xf32>"),
        "Lower the program again with a version of the framework that was tested; do not edit what it has written.",
    ),
)
