"""Programs that are refused: the text, where the error is, and what it says."""

from __future__ import annotations

import dataclasses

_MESH = 'sdy.mesh @mesh = <["x"=4]>\n'


@dataclasses.dataclass(frozen=True)
class Bad:
    """`place` is line:column."""

    text: str
    place: str
    message: str


def _main(argument: str, *body: str, head: str = _MESH, result: str = "tensor<8xf32>", ret: str = "%a") -> str:
    lines = "".join(f"  {line}\n" for line in body)
    return f"{head}func.func public @main(%a: {argument}) -> {result} {{\n{lines}  return {ret} : tensor<8xf32>\n}}\n"


def _argument(sharding: str) -> str:
    return f"tensor<8xf32> {{sdy.sharding = #sdy.sharding<{sharding}>}}"


_SPLIT = _argument('@mesh, [{"x"}]')


def _module(attributes: str, text: str) -> str:
    return f"module attributes {{{attributes}}} {{\n{text}}}\n"


BAD = {
    # ---- not a program ----
    "an unknown operation": Bad(
        _main("tensor<8xf32>", "%0 = stablehlo.ad %a, %a : tensor<8xf32>"),
        "3:8",
        "custom op 'stablehlo.ad' is unknown",
    ),
    "types that do not agree": Bad(
        _main("tensor<8xf32>", "%0 = stablehlo.add %a, %a : tensor<7xf32>"),
        "3:22",
        "use of value '%a' expects different type than prior uses: 'tensor<7xf32>' vs 'tensor<8xf32>'",
    ),
    "prose": Bad("hello world\n", "1:1", "custom op 'hello' is unknown (tried 'builtin.hello' as well)"),
    "a module without functions": Bad(
        "module {\n}\n", "1:1", "no function '@main'; the public functions are none; call one of them '@main'"
    ),
    "a declaration without a body": Bad(
        "func.func private @main(tensor<8xf32>) -> tensor<8xf32>\n",
        "1:1",
        "'func.func' op function '@main' has no body of one block; give its definition",
    ),
    # ---- Shardy's annotations ----
    "a sharding of the wrong rank": Bad(
        _main(_argument('@mesh, [{"x"}, {}]')),
        "2:1",
        "'func.func' op arg 0 - sharding doesn't match tensor rank: 2 != 1",
    ),
    "a result sharding of the wrong rank": Bad(
        _main("tensor<8xf32>", result=f"({_argument('@mesh, [{}, {}]')})"),
        "2:1",
        "'func.func' op result 0 - sharding doesn't match tensor rank: 2 != 1",
    ),
    "a constraint of the wrong rank": Bad(
        _main("tensor<8xf32>", '%0 = sdy.sharding_constraint %a <@mesh, [{"x"}, {}]> : tensor<8xf32>'),
        "3:8",
        "'sdy.sharding_constraint' op sharding doesn't match tensor rank: 2 != 1",
    ),
    "more shardings than results": Bad(
        _main(
            "tensor<8xf32>",
            "%0 = stablehlo.sine %a {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}]>, <@mesh, [{}]>]>}"
            " : tensor<8xf32>",
        ),
        "3:8",
        "'stablehlo.sine' op result shardings don't match number of values: 2 shardings vs 1 values",
    ),
    "an unknown axis": Bad(
        _main(_argument('@mesh, [{"q"}]')), "2:1", "'func.func' op arg 0 - unknown axis name: \"q\""
    ),
    "an unknown mesh": Bad(_main(_argument('@other, [{"x"}]')), "2:1", "'func.func' op arg 0 - unknown mesh: @other"),
    "an axis used twice": Bad(
        _main(_argument('@mesh, [{"x"}], replicated={"x"}')), "2:1", "'func.func' op arg 0 - duplicate axis ref: \"x\""
    ),
    "a part that does not divide its axis": Bad(
        _main(_argument('@mesh, [{"x":(1)3}]')),
        "2:1",
        "'func.func' op arg 0 - sub-axis next pre-size 3 doesn't divide the size of the full axis 4: \"x\":(1)3",
    ),
    "device ids that repeat": Bad(
        _main(_SPLIT, head='sdy.mesh @mesh = <["x"=4], device_ids=[0, 1, 1, 2]>\n'),
        "1:18",
        "custom op 'sdy.mesh' sorted device ids must be iota(product(axes)), got: 0, 1, 1, 2",
    ),
    "meshes of different sizes": Bad(
        _main(
            _SPLIT,
            head='sdy.mesh @mesh = <["x"=4]>\nsdy.mesh @more = <["y"=6]>\n',
            result=f"({_argument(chr(64) + 'more, [{' + chr(34) + 'y' + chr(34) + '}]')})",
        ),
        "3:1",
        "'func.func' op uses a mesh of 4 devices in a program of 6; "
        "use all devices, or a number of them that divides all",
    ),
    # ---- GSPMD's annotations ----
    "an mhlo sharding that lists too many devices": Bad(
        _main('tensor<8xf32> {mhlo.sharding = "{devices=[4]<=[5]}"}', head=""),
        "1:1",
        "'func.func' op tile dims [4] need 4 devices but 5 are given",
    ),
    "an mhlo sharding of the wrong rank": Bad(
        _main('tensor<8xf32> {mhlo.sharding = "{devices=[2,2]<=[4]}"}', head=""),
        "1:1",
        "'func.func' op sharding of 2 tile dims does not fit a tensor of rank 1; give one for each dimension",
    ),
    "an mhlo sharding that is no string": Bad(
        _main("tensor<8xf32> {mhlo.sharding = 3 : i32}", head=""),
        "1:1",
        "'func.func' op 'mhlo.sharding' is 3 : i32, expected a string; write it as \"{replicated}\"",
    ),
    # ---- numbers of devices ----
    "an mhlo sharding of fewer devices than partitions": Bad(
        _module(
            "mhlo.num_partitions = 8 : i32", _main('tensor<8xf32> {mhlo.sharding = "{devices=[4]<=[4]}"}', head="")
        ),
        "2:1",
        "'func.func' op 'mhlo.sharding' is of 4 devices but the program is for 8; "
        "make it agree with 'mhlo.num_partitions' and the other annotations",
    ),
    "a mesh of fewer devices than partitions": Bad(
        _module("mhlo.num_partitions = 6 : i32", _main(_SPLIT)),
        "3:1",
        "'func.func' op uses a mesh of 4 devices in a program of 6; "
        "use all devices, or a number of them that divides all",
    ),
    "a number of partitions below one": Bad(
        _module("mhlo.num_partitions = -4 : i32", _main(_SPLIT)),
        "2:1",
        "'sdy.mesh' op mesh \"@mesh\" has 4 devices but 'mhlo.num_partitions' is -4; make them agree",
    ),
    "a number of partitions that is no number": Bad(
        _module('mhlo.num_partitions = "8"', _main(_SPLIT)),
        "1:1",
        "'mhlo.num_partitions' is \"8\", expected an integer of at most 64 bits, as 8 : i32",
    ),
    "replicas": Bad(
        _module("mhlo.num_replicas = 2 : i32", _main(_SPLIT)),
        "1:1",
        "a program of 2 replicas; make the replicas an axis of the mesh",
    ),
    # ---- annotations that contradict each other ----
    "two families that disagree": Bad(
        _main('tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>, mhlo.sharding = "{replicated}"}'),
        "2:1",
        "'func.func' op two annotations that contradict each other: [{\"x\"}] by 'sdy' but [{}] by 'mhlo.sharding'; "
        "keep one",
    ),
    # ---- what is not supported ----
    "a dynamic shape": Bad(
        "func.func public @main(%a: tensor<?xf32>) -> tensor<?xf32> {\n  return %a : tensor<?xf32>\n}\n",
        "1:1",
        "'func.func' op a value of dynamic shape 'tensor<?xf32>'; export the program with fixed shapes",
    ),
    "an unknown custom call": Bad(
        _main(_SPLIT, "%0 = stablehlo.custom_call @my_kernel(%a) : (tensor<8xf32>) -> tensor<8xf32>", ret="%0"),
        "3:8",
        "'stablehlo.custom_call' op calls 'my_kernel', which has no sharding rule; give it one with --custom-rule, "
        "compute it in a manual computation, or whole on every device with --replicate-unsupported",
    ),
    "an operation of another dialect": Bad(
        _main(_SPLIT, "%0 = arith.addf %a, %a : tensor<8xf32>", ret="%0"),
        "3:8",
        "'arith.addf' op is not supported; replace it, or compute it whole with --replicate-unsupported",
    ),
    "a function that calls itself": Bad(
        _main(_SPLIT, "%0 = func.call @f(%a) : (tensor<8xf32>) -> tensor<8xf32>", ret="%0")
        + "func.func private @f(%a: tensor<8xf32>) -> tensor<8xf32> {\n"
        "  %0 = func.call @f(%a) : (tensor<8xf32>) -> tensor<8xf32>\n  return %0 : tensor<8xf32>\n}\n",
        "7:8",
        "'func.call' op recursive call @f -> @f; write the recursion as a 'stablehlo.while'",
    ),
}
