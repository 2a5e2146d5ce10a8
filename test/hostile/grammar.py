"""Changes to MLIR text that keep its grammar and break what it means."""

from __future__ import annotations

import re
from collections.abc import Callable
from random import Random

from hostile.mutations import NAMES, NUMBERS

ELEMENTS = (
    "f32", "f64", "bf16", "f16", "i1", "i8", "i32", "i64", "ui8", "ui32", "si32", "i128", "index", "complex<f32>",
    "tuple<>",
    "f8E4M3FN", "f8E8M0FNU", "i4", "i0", "none", "!stablehlo.token", "vector<2xf32>", "memref<2xf32>", "!quant.any<i8>",
    "!quant.uniform<i8:f32, 0.5>", "f4E2M1FN",
)  # fmt: skip
OPERATIONS = (
    "stablehlo.add", "stablehlo.subtract", "stablehlo.negate", "stablehlo.reshape", "stablehlo.transpose",
    "stablehlo.while",
    "stablehlo.if", "stablehlo.case", "stablehlo.return", "func.return", "func.call", "stablehlo.custom_call",
    "stablehlo.sort",
    "stablehlo.gather", "stablehlo.scatter", "stablehlo.pad", "stablehlo.concatenate", "stablehlo.dynamic_slice",
    "sdy.return",
    "stablehlo.dynamic_update_slice", "stablehlo.convolution", "stablehlo.reduce", "stablehlo.reduce_window",
    "sdy.reshard",
    "stablehlo.iota", "stablehlo.constant", "stablehlo.rng", "stablehlo.tuple", "stablehlo.get_tuple_element",
    "stablehlo.optimization_barrier", "stablehlo.all_reduce", "stablehlo.all_gather", "stablehlo.partition_id",
    "stablehlo.composite", "stablehlo.dynamic_reshape", "stablehlo.dynamic_iota", "stablehlo.infeed",
    "stablehlo.outfeed",
    "stablehlo.send", "stablehlo.recv", "stablehlo.after_all", "stablehlo.map", "stablehlo.fft", "stablehlo.cholesky",
    "stablehlo.bitcast_convert", "stablehlo.complex", "stablehlo.select", "stablehlo.slice", "stablehlo.reverse",
    "chlo.top_k",
    "chlo.erf", "mhlo.copy", "sdy.sharding_constraint", "sdy.manual_computation", "sdy.propagation_barrier",
    "sdy.all_gather",
    "sdy.sharding_group", "arith.constant", "tensor.cast", "shape.shape_of", "builtin.module", "func.func", "ub.poison",
    "builtin.unrealized_conversion_cast", "stablehlo.uniform_quantize", "stablehlo.create_token",
    "stablehlo.replica_id",
)  # fmt: skip
ATTRIBUTES = (
    'mhlo.sharding = "{}"', 'mhlo.sharding = ""', "mhlo.sharding = 1 : i32", 'mhlo.sharding = "\\FF"',
    'mhlo.sharding = "{devices=[2,2]<=[4]}"', 'mhlo.sharding = "{maximal device=99}"', 'mhlo.sharding = "{manual}"',
    'mhlo.sharding = "{devices=[99999999999]<=[99999999999]}"', "sdy.sharding = 1 : i32", 'sdy.sharding = "x"',
    "sdy.sharding = #sdy.sharding<@mesh, []>", "sdy.sharding = #sdy.sharding<@nowhere, [{}, {}]>",
    'sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"x"}]>', 'sdy.sharding = #sdy.sharding<@mesh, [{"q"}]>',
    'sdy.sharding = #sdy.sharding<@mesh, [{"x":(3)2}]>', 'sdy.sharding = #sdy.sharding<mesh<["z"=3]>, [{"z"}]>',
    'sdy.sharding = #sdy.sharding<@mesh, [{"x"}p9, {?}p0], replicated={"x"}>',
    "sdy.sharding = #sdy.sharding_per_value<[]>", "mhlo.frontend_attributes = {}", "mhlo.frontend_attributes = 1 : i32",
    'mhlo.frontend_attributes = {xla.sdy.sharding = ""}', "mhlo.frontend_attributes = {xla.sdy.sharding = 1 : i32}",
    'mhlo.frontend_attributes = {xla.sdy.meshes = ""}', 'mhlo.frontend_attributes = {xla.sdy.meshes = "{mesh = 1}"}',
    'mhlo.frontend_attributes = {num_batch_dims = "99"}', 'mhlo.frontend_attributes = {xla.sdy.sharding_rule = "x"}',
    'mhlo.num_partitions = 0 : i32', 'mhlo.num_partitions = -1 : i32', 'mhlo.num_partitions = "8"',
    'mhlo.num_replicas = 2 : i32', 'tf.aliasing_output = 9 : i32', "tf.aliasing_output = unit",
    "jax.buffer_donor = true",
    'mhlo.memory_kind = ""', "mhlo.memory_kind = 3 : i32", 'sym_visibility = "private"', "sdy.sharding_rule = 1 : i32",
    "sdy.sharding_rule = #sdy.op_sharding_rule<([i])->([i]) {i=8}, custom>", "gspmd.mesh = 1 : i32", 'gspmd.mesh = "x"',
    'mhlo.layout_mode = "{9}"', "dense<> : tensor<0xf32>", 'jax.result_info = "\\FF"', "gspmd.like",
    'gspmd.sharding = ""',
)  # fmt: skip


def mutated_program(rng: Random, text: str, other: str) -> str:
    """The text with one change to what it says; `other` is left alone."""
    return rng.choice(_CHANGES)(rng, text)


def _one_of(rng: Random, pattern: str, text: str, change: Callable[[re.Match[str]], str]) -> str:
    """The text with one match of a pattern, or now and then all that are equal to it, changed."""
    found = list(re.finditer(pattern, text))
    if not found:
        return text
    match = rng.choice(found)
    new = change(match)
    if rng.random() < 0.3:
        return text.replace(match[0], new)
    return text[: match.start()] + new + text[match.end() :]


def _shape(rng: Random, text: str) -> str:
    def change(match: re.Match[str]) -> str:
        dims, element = re.findall(r"([\d?]+)x", match[1]), re.sub(r"^(?:[\d?]+x)*", "", match[1])
        place = rng.randrange(len(dims) + 1)
        match rng.randrange(6):
            case 0:
                dims.insert(place, rng.choice(("1", "0", "2", "?", *NUMBERS)))
            case 1:
                del dims[place : place + 1]
            case 2:
                dims[place : place + 1] = [rng.choice(("0", "1", "3", "7", "?", "-1", *NUMBERS))]
            case 3:
                rng.shuffle(dims)
            case 4:
                dims *= rng.choice((2, 2, 50, 1000))
            case _:
                element = rng.choice(ELEMENTS)
        return f"tensor<{''.join(f'{d}x' for d in dims)}{element}>"

    return _one_of(rng, r"tensor<([^<>]*)>", text, change)


def _element(rng: Random, text: str) -> str:
    new = rng.choice(ELEMENTS)
    return _one_of(rng, r"(?<=[x<])(?:f32|i32|f64|i1|bf16|i64|ui32)(?=>)", text, lambda _: new)


def _axes(rng: Random, text: str) -> str:
    def change(match: re.Match[str]) -> str:
        axes = [axis for axis in match[1].split(", ") if axis]
        place = rng.randrange(len(axes) + 1)
        new = rng.choice(('"x"', '"y"', '"z"', '"mesh"', '"x":(1)2', '"x":(2)2', '"x":(3)5', '"x":(0)0', '""', "?", "x",
                          '"x":(1)9223372036854775807', f'"{rng.choice(NAMES)}"'))  # fmt: skip
        match rng.randrange(5):
            case 0:
                axes *= rng.choice((2, 100))
            case 1:
                rng.shuffle(axes)
                del axes[place : place + 1]
            case _:
                axes.insert(place, new)
        return f"{{{', '.join(axes)}}}{rng.choice(('', '', '', 'p0', 'p7', 'p99999999999', 'p-1'))}"

    return _one_of(rng, r'\{((?:"[^"]*"(?::\(\d+\)\d+)?(?:, )?|\?)*)\}', text, change)


def _dims(rng: Random, text: str) -> str:
    """A sharding with a dimension more or less, or other axes that are replicated or unreduced."""

    def change(match: re.Match[str]) -> str:
        more = rng.choice((", {}", ', {"x"}', ', {"x"}, {"x"}', ", {?}", ", {}" * 200))
        tail = rng.choice((', replicated={"x"}', ', unreduced={"x"}', ", replicated={}", ', unreduced={"q"}'))
        return rng.choice((f"{match[1]}{more}]{match[2]}", f"{match[1]}]{tail}>", f"[]{match[2]}", f"{match[1]}"))

    return _one_of(rng, r"(\[(?:\{[^{}]*\}(?:p\d+)?(?:, )?)*)\]([^>]*>)", text, change)


def _mesh(rng: Random, text: str) -> str:
    sizes = ("0", "1", "2", "3", "7", "1000000007", "2147483647", "4294967296", "9223372036854775807", "-1", "99999")
    names = ("x", "y", "z", "a b", "", "x{a", "é")
    axes = ", ".join(f'"{rng.choice(names)}"={rng.choice(sizes)}' for _ in range(rng.choice((0, 1, 1, 2, 2, 3, 16))))
    order = rng.choice(("", "", "", ", device_ids=[0]", ", device_ids=[]", ", device_ids=[1, 0, 0]",
                        ", device_ids=[-1]",
                        ", device_ids=[7, 6, 5, 4, 3, 2, 1, 0]", ", device_ids=[99999999999]"))  # fmt: skip
    if rng.random() < 0.5:
        return _one_of(rng, r'(?<="=)\d+', text, lambda _: rng.choice(sizes))
    return _one_of(rng, r"sdy\.mesh @(\S+) = <[^<>]*>", text, lambda m: f"sdy.mesh @{m[1]} = <[{axes}]{order}>")


def _operation(rng: Random, text: str) -> str:
    new = rng.choice(OPERATIONS)
    return _one_of(rng, r"\b(?:stablehlo|sdy|chlo|func|mhlo)\.[a-z_]+", text, lambda _: new)


def _left_out(rng: Random, text: str) -> str:
    """An operation of one line is left out, doubled, or put elsewhere."""
    lines = text.split("\n")
    found = [i for i, line in enumerate(lines) if re.match(r"\s*(?:%[\w:, %]+ = |return|stablehlo\.return)", line)]
    if not found:
        return text
    place = rng.choice(found)
    line = lines[place]
    if rng.random() < 0.6:
        del lines[place]
    if rng.random() < 0.4:
        lines.insert(rng.randrange(len(lines) + 1), line)
    return "\n".join(lines)


def _values(rng: Random, text: str) -> str:
    names = re.findall(r"%[\w#]+", text)
    new = rng.choice((*names, "%undefined", "%0", "%arg99")) if names else "%0"
    return _one_of(rng, r"%[\w#]+", text, lambda _: new)


def _returned(rng: Random, text: str) -> str:
    """What a function or region gives back, in another order or number."""

    def change(match: re.Match[str]) -> str:
        values, types = match[2].split(", "), match[3].split(", ")
        match rng.randrange(4):
            case 0:
                values.reverse()
            case 1:
                values, types = values[1:], types[1:]
            case 2:
                values, types = values * 2, types * 2
            case _:
                types.reverse()
        return f"{match[1]} {', '.join(values)} : {', '.join(types)}"

    return _one_of(rng, r"(return) (%[\w#, %]+) : ([^\n]+)", text, change)


def _attribute(rng: Random, text: str) -> str:
    new = rng.choice(ATTRIBUTES)
    if rng.random() < 0.5:
        return _one_of(rng, r"(%\w+: tensor<[^<>]*>)(?: \{[^\n]*?\})?(?=[,)])", text, lambda m: f"{m[1]} {{{new}}}")
    places = (r"(?<=[\w)]) (?:attributes )?\{\n", r"(?<=\S)(?= : \(?tensor)", r"(?<=^module)(?= )")
    pattern = rng.choice(places)
    if pattern is places[0]:
        return _one_of(rng, pattern, text, lambda _: f" attributes {{{new}}} {{\n")
    return _one_of(rng, pattern, text, lambda _: f" {{{new}}}")


def _nested(rng: Random, text: str) -> str:
    """The whole module in modules, or its text many times."""
    depth = rng.choice((1, 2, 3, 50, 1000, 10_000))
    if rng.random() < 0.5:
        return "module {\n" * depth + text + "}\n" * depth
    return text * min(depth, 3)


def _numbers_in_lists(rng: Random, text: str) -> str:
    """A list of numbers with one more, one less, or an extreme one."""

    def change(match: re.Match[str]) -> str:
        numbers = [n for n in re.split(r",\s*", match[1]) if n]
        place = rng.randrange(len(numbers) + 1)
        if rng.random() < 0.3:
            del numbers[place : place + 1]
        else:
            numbers[place : place + rng.randrange(2)] = [rng.choice(("0", "1", "2", "-1", "9", *NUMBERS))]
        return f"[{', '.join(numbers)}]"

    return _one_of(rng, r"\[(-?\d+(?:,\s*-?\d+)*|)\]", text, change)


_CHANGES = (
    _shape, _shape, _shape, _element, _axes, _axes, _axes, _dims, _mesh, _operation, _operation, _left_out, _left_out,
    _values, _values, _returned, _attribute, _attribute, _nested, _numbers_in_lists, _numbers_in_lists,
)  # fmt: skip
