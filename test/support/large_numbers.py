"""Programs that say large numbers in few words."""

from __future__ import annotations

PRIME, LARGE_PRIME = 1000000007, 2**31 - 1


def over(axes: dict[str, int], argument: str, result: str, body: str, type_: str) -> str:
    """A function of one argument and result of a type, in these shardings, over a mesh."""
    mesh = ", ".join(f'"{name}"={size}' for name, size in axes.items())
    given, wanted = (f"{{sdy.sharding = #sdy.sharding<@mesh, {text}>}}" for text in (argument, result))
    return (
        f"sdy.mesh @mesh = <[{mesh}]>\n"
        f"func.func public @main(%a: tensor<{type_}> {given}) -> (tensor<{type_}> {wanted}) {{\n"
        f"  {body}\n  return %r : tensor<{type_}>\n}}\n"
    )


def negated(axes: dict[str, int], argument: str, result: str, type_: str) -> str:
    return over(axes, argument, result, f"%r = stablehlo.negate %a : tensor<{type_}>", type_)


def _cumulative_sum(size: int) -> str:
    return f"""%c = stablehlo.constant dense<0.0> : tensor<f32>
  %r = "stablehlo.reduce_window"(%a, %c) <{{window_dimensions = array<i64: {size}, 1>,
      padding = dense<[[{size - 1}, 0], [0, 0]]> : tensor<2x2xi64>}}> ({{
    ^bb0(%x: tensor<f32>, %y: tensor<f32>):
      %z = stablehlo.add %x, %y : tensor<f32>
      stablehlo.return %z : tensor<f32>
  }}) : (tensor<{size}x8xf32>, tensor<f32>) -> tensor<{size}x8xf32>"""


def _dot_reversed(count: int) -> str:
    """A product whose operands are split over half of the axes each, and its result over all in reverse order."""
    names, half = [f"x{i}" for i in range(count)], count // 2
    dims = [f'{{"{name}"}}' for name in names]
    operand, result = "x".join(["4"] * half + ["8"]) + "xf32", "x".join(["4"] * count) + "xf32"

    def sharded(parts: list[str]) -> str:
        return f"{{sdy.sharding = #sdy.sharding<@mesh, [{', '.join(parts)}]>}}"

    mesh = ", ".join(f'"{name}"=2' for name in names)
    return (
        f"sdy.mesh @mesh = <[{mesh}]>\n"
        f"func.func public @main(%a: tensor<{operand}> {sharded([*dims[:half], '{}'])}, "
        f"%b: tensor<{operand}> {sharded([*dims[half:], '{}'])}) -> (tensor<{result}> {sharded(dims[::-1])}) {{\n"
        f"  %r = stablehlo.dot_general %a, %b, contracting_dims = [{half}] x [{half}] : "
        f"(tensor<{operand}>, tensor<{operand}>) -> tensor<{result}>\n  return %r : tensor<{result}>\n}}\n"
    )


def calls(depth: int, fan: int, leaf: str = "%r = stablehlo.negate %a : tensor<f32>") -> str:
    """Functions each of which calls the next so many times."""
    functions = [f"func.func private @f0(%a: tensor<f32>) -> tensor<f32> {{\n  {leaf}\n  return %r : tensor<f32>\n}}\n"]
    for level in range(1, depth):
        lines = [
            f"  %r{i} = call @f{level - 1}(%{f'r{i - 1}' if i else 'a'}) : (tensor<f32>) -> tensor<f32>\n"
            for i in range(fan)
        ]
        functions.append(
            f"func.func private @f{level}(%a: tensor<f32>) -> tensor<f32> {{\n{''.join(lines)}"
            f"  return %r{fan - 1} : tensor<f32>\n}}\n"
        )
    return (
        'sdy.mesh @mesh = <["x"=2]>\nfunc.func public @main(%a: tensor<f32>) -> tensor<f32> {\n'
        f"  %r = call @f{depth - 1}(%a) : (tensor<f32>) -> tensor<f32>\n  return %r : tensor<f32>\n}}\n"
        + "".join(functions)
    )


def _tiled(text: str, devices: int) -> str:
    return (
        f"module attributes {{mhlo.num_partitions = {devices} : i32}} {{\n"
        f'func.func public @main(%a: tensor<{devices}x8xf32> {{mhlo.sharding = "{text}"}}) '
        f"-> tensor<{devices}x8xf32> {{\n  return %a : tensor<{devices}x8xf32>\n}}\n}}\n"
    )


_X, _WHOLE = '[{"x"}, {}]', "[{}, {}]"
_RUN_SPLIT = f"{{sdy.sharding = #sdy.sharding_per_value<[<@mesh, {_X}>]>}}"
SLICED = over(
    {"x": PRIME},
    _X,
    _X,
    f"%s = stablehlo.slice %a [1:{PRIME}, 0:8] {_RUN_SPLIT} : (tensor<{PRIME}x8xf32>) -> tensor<{PRIME - 1}x8xf32>\n"
    f"  %c = stablehlo.constant dense<0.0> : tensor<f32>\n"
    f"  %r = stablehlo.pad %s, %c, low = [0, 0], high = [1, 0], interior = [0, 0] {_RUN_SPLIT} : "
    f"(tensor<{PRIME - 1}x8xf32>, tensor<f32>) -> tensor<{PRIME}x8xf32>",
    f"{PRIME}x8xf32",
)

PARTITIONED = {
    "one split dimension of a prime size": negated({"x": PRIME}, _X, _X, f"{PRIME}x8xf32"),
    "a dimension over a large prime is gathered": negated({"x": LARGE_PRIME}, _X, _WHOLE, f"{LARGE_PRIME}x8xf32"),
    "an uneven dimension is cut": negated({"x": LARGE_PRIME}, _WHOLE, _X, f"{2**40}x8xf32"),
    "a partial value": negated({"x": PRIME}, '[{}, {}], unreduced={"x"}', _WHOLE, "8x8xf32"),
    "a tile list": _tiled(f"{{devices=[{PRIME},1]<=[{PRIME}]}}", PRIME),
    "a value on one device of many": _tiled(f"{{maximal device={PRIME - 1}}}", PRIME),
    "a splat": over(
        {"x": PRIME}, _X, _X, f"%r = stablehlo.constant dense<1.0> : tensor<{PRIME}x8xf32>", f"{PRIME}x8xf32"
    ),
    "a cumulative sum of a dimension that is not split": over(
        {"x": 2}, '[{}, {"x"}]', '[{}, {"x"}]', _cumulative_sum(LARGE_PRIME), f"{LARGE_PRIME}x8xf32"
    ),
    "a slice of a dimension over a prime is taken of all of it": SLICED,
    "sixteen axes in reverse order": _dot_reversed(16),
    "calls that are 200 deep": calls(200, 1),
    "calls of calls": calls(3, 20),
}

REFUSED = {
    "a dimension that padding makes too large": (
        negated({"x": 4}, '[{"x"}]', "[{}]", f"{2**63 - 1}xf32"),
        r"needs a value of f32\[9223372036854775808\] in between, which has more than 9223372036854775807 elements",
    ),
    "axes that change places": (
        negated({"x": PRIME, "y": 2}, '[{"x", "y"}, {}]', '[{"y", "x"}, {}]', f"{2 * PRIME}x8xf32"),
        "needs a list of 2000000014 devices, expected at most 1048576",
    ),
    "a mesh of 2^64 devices": (
        negated({"x": 2**32, "y": 2**32}, _X, _X, "8x8xf32"),
        r'mesh "@mesh" has 4294967296 x 4294967296 devices, expected at most 2147483647',
    ),
    "a mesh beyond 64 bits": (
        negated({"x": 2**63 - 1, "y": 2**63 - 1}, _X, _X, "8x8xf32"),
        r'mesh "@mesh" has 9223372036854775807 x .* devices, expected at most',
    ),
    "a tile list of more devices than the program has": (
        _tiled("{devices=[1099511627776,1]<=[1099511627776]}", 2),
        "'mhlo.sharding' is of 1099511627776 devices but the program is for 2",
    ),
    "a tile list of too many devices": (
        _tiled("{devices=[1099511627776,1]<=[1099511627776]}", 2).partition("{\n")[2].rpartition("}")[0],
        "the mesh has 1099511627776 devices, expected at most 2147483647|mesh .* has 1099511627776 devices, expected",
    ),
    "a convolution of two billion dimensions": (
        """func.func @main(%a: tensor<1x8xf32>, %k: tensor<8x4xf32>) -> tensor<1x4xf32> {
          %r = stablehlo.convolution(%a, %k) dim_numbers = [b, 0x7FC00000, f]x[i, o]->[b, f], window = {}
            {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
            : (tensor<1x8xf32>, tensor<8x4xf32>) -> tensor<1x4xf32>
          return %r : tensor<1x4xf32>
        }""",
        "a convolution has dimension 0x7FC00000; spatial dimensions are numbered from 0",
    ),
    "thirty functions that call each other twice": (
        calls(30, 2),
        r"function '@f17' has \d+ operations or more where calls are .*, expected at most 500000",
    ),
    "calls that are 5000 deep": (calls(5000, 1), r"is the start of calls that are 1001 deep, expected at most 1000"),
}
