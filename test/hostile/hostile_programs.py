"""Texts that end a process, or fail in it, where nobody looks at them first; and what is said of them instead."""

from __future__ import annotations

_MAIN = "func.func @main(%a: tensor<8xf32>{argument}) -> tensor<8xf32> {{\n  {body}return %a : tensor<8xf32>\n}}\n"


def main(argument: str = "", body: str = "", attributes: str = "") -> str:
    text = _MAIN.format(argument=f" {{{argument}}}" if argument else "", body=f"{body}\n  " if body else "")
    return f"module attributes {{{attributes}}} {{\n{text}}}\n" if attributes else text


def nested_loops(count: int) -> str:
    """Loops in the bodies of loops."""
    lines = ["func.func @main(%go: tensor<i1>, %x: tensor<8xf32>) -> tensor<8xf32> {"]
    for index in range(count):
        source = f"%x{index - 1}" if index else "%x"
        lines.append(f'%w{index} = "stablehlo.while"({source}) ({{ ^bb0(%y{index}: tensor<8xf32>):')
        lines.append('"stablehlo.return"(%go) : (tensor<i1>) -> () }, {' + f" ^bb0(%x{index}: tensor<8xf32>):")
    lines.append(f'"stablehlo.return"(%x{count - 1}) : (tensor<8xf32>) -> ()')
    for index in reversed(range(count)):
        lines.append("}) : (tensor<8xf32>) -> tensor<8xf32>")
        if index:
            lines.append(f'"stablehlo.return"(%w{index}) : (tensor<8xf32>) -> ()')
    return "\n".join([*lines, "return %w0 : tensor<8xf32>", "}", ""])


def doubling_aliases(count: int) -> str:
    lines = [f"#a{index} = [#a{index - 1}, #a{index - 1}]" for index in range(1, count + 1)]
    return "\n".join(["#a0 = [1]", *lines, main(attributes=f"foo.x = #a{count}")])


def chained_aliases(count: int) -> str:
    lines = [f"#a{index} = [#a{index - 1}]" for index in range(1, count + 1)]
    return "\n".join(["#a0 = [1]", *lines, main(attributes=f"foo.x = #a{count}")])


def calls_in_loops(count: int, loops: int) -> str:
    """Functions that each call the next inside nested loops."""
    texts = []
    for index in range(count):
        inner = f"%c = func.call @f{index + 1}(%x{loops - 1}) : (tensor<8xf32>) -> tensor<8xf32>\n"
        text = nested_loops(loops).replace("%go: tensor<i1>, ", "").replace("@main", f"@f{index}" if index else "@main")
        last = f'"stablehlo.return"(%x{loops - 1})'
        text = text.replace(last, inner + '"stablehlo.return"(%c)')
        texts.append(
            text.replace("tensor<8xf32> {", "tensor<8xf32> {\n%go = stablehlo.constant dense<true> : tensor<i1>", 1)
        )
    leaf = main().replace("@main", f"@f{count}")
    return "".join(texts) + leaf


_RULE = 'mhlo.frontend_attributes = {xla.sdy.sharding_rule = "[1]"}'

HOSTILE = {
    "a number of very many digits": (
        main(body=f"%0 = stablehlo.constant dense<{'1' * 100_000}> : tensor<8xi32>"),
        "f:2:33: error: a number of 100000 digits; at most 1000 are supported; write it shorter",
    ),
    "a hexadecimal number of very many digits": (
        main(body=f"%0 = stablehlo.constant dense<0x{'F' * 100_000}> : tensor<8xi32>"),
        "error: a number of 100000 digits; at most 1000 are supported",
    ),
    "very many digits in an attribute's text": (
        main(f'mhlo.frontend_attributes = {{xla.sdy.sharding = "#sdy.sharding<@mesh, [{{}}p{"1" * 2000}]>"}}'),
        "a number of 2000 digits",
    ),
    "an empty sharding in a frontend attribute": (
        main('mhlo.frontend_attributes = {xla.sdy.sharding = ""}'),
        "f:1:1: error: 'func.func' op frontend attribute is empty; leave it out, or write what it is to be",
    ),
    "no meshes in a frontend attribute": (
        main(attributes='mhlo.frontend_attributes = {xla.sdy.meshes = ""}'),
        "f:1:1: error: frontend attribute is empty; leave it out, or write what it is to be",
    ),
    "meshes that are none": (
        main(attributes='mhlo.frontend_attributes = {xla.sdy.meshes = "[1]"}'),
        "f:1:1: error: frontend attribute 'xla.sdy.meshes' is '[1]'; expected a dictionary of meshes",
    ),
    "a sharding that nests too deeply": (
        main('mhlo.frontend_attributes = {xla.sdy.sharding = "' + "[" * 9000 + '"}'),
        "brackets nest 9000 deep; at most 500 are read",
    ),
    "a sharding rule that is none": (
        main(body=f"stablehlo.custom_call @f(%a) {{{_RULE}}} : (tensor<8xf32>) -> tensor<8xf32>"),
        "frontend attribute 'xla.sdy.sharding_rule' is '[1]'; expected a sharding rule",
    ),
    "a sharding that is no UTF-8": (
        main(r'mhlo.sharding = "\FF"'),
        r"expected '{' but found '\' at offset 0 of '\xff'",
    ),
    "a complex element of what is not complex": (
        main(body="%c = stablehlo.constant dense<(0.0,1.0)> : tensor<f32>"),
        "f:2:27: error: jaxlib's parser ends with signal SIGSEGV on 'f'; give constants elements of their type",
    ),
    "complex elements behind a comment": (
        main(body="%c = stablehlo.constant dense<// x\n(0,1)> : tensor<i32>"),
        "f:2:27: error: jaxlib's parser ends with signal SIGSEGV on 'f'",
    ),
    "loops in loops": (
        nested_loops(1000),
        "f:128:33: error: regions nest 1001 deep; at most 64 are read; nest less deeply",
    ),
    "modules in modules": ("module {" * 100_000, "f:1:520: error: regions nest 100000 deep; at most 64 are read"),
    "brackets in brackets": ("[" * 100_000, "f:1:501: error: brackets nest 100000 deep; at most 500 are read"),
    "tuples in tuples": ("!t = " + "tuple<" * 50_000 + "\n", "f:1:3011: error: brackets nest 50000 deep"),
    "aliases that double": (doubling_aliases(40), "f:1:1: error: aliases stand for others, 41 deep"),
    "aliases in a long chain": (chained_aliases(20_000), "f:1:1: error: aliases stand for others, 20001 deep"),
    "calls in loops in calls": (
        calls_in_loops(3, 30),
        "'func.call' op is in regions 90 deep once calls are inlined; at most 64 are supported; nest less deeply",
    ),
    "a symbol that is no UTF-8": (main().replace("@main", r'@"\FF"'), r'f:1:12: error: name "\FF" is not UTF-8'),
    "an attribute's name that is no UTF-8": (main(r'"foo.\FF" = 1'), r'f:1:36: error: name "foo.\FF" is not UTF-8'),
    "a unit attribute's name that is no UTF-8": (
        main(r'a.b, "foo.\FF"'),
        r'f:1:41: error: name "foo.\FF" is not UTF-8',
    ),
    "an attribute's name with a NUL": (
        main(r'"foo.\00" = 1'),
        r'f:1:36: error: name "foo.\00" has a NUL in it',
    ),
    "a complex constant on an argument": (
        main().replace("%a: tensor<8xf32>", "%a: tensor<8xf32> {my.c = dense<(1.0,2.0)> : tensor<2xcomplex<f32>>}"),
        "attribute 'my.c' of an argument",
    ),
    "a callee that is no UTF-8": (
        main(body=r'func.call @"\FF"() : () -> ()'),
        r'f:2:14: error: name "\FF" is not UTF-8',
    ),
    "a mesh axis that is no UTF-8": (
        'sdy.mesh @m = <["\\FF"=2]>\n' + main(),
        r'f:1:17: error: name "\FF" is not UTF-8',
    ),
    "half a character": ("\udcff {", "error: 'f' is neither MLIR text nor MLIR bytecode"),
    "a marker without a value": (
        main(body='%0 = stablehlo.custom_call @Sharding() {mhlo.sharding = "{replicated}"} : () -> tensor<8xf32>'),
        "custom call 'Sharding' makes (tensor<8xf32>) of (); expected the type it takes",
    ),
} | {
    f"{attributes or argument} of another kind": (main(argument, attributes=attributes), f"'{name}' is {value}")
    for argument, attributes, name, value in (
        ("mhlo.memory_kind = 3", "", "mhlo.memory_kind", "3 : i64, expected a string"),
        ("gspmd.name = 3", "", "gspmd.name", "3 : i64, expected a string"),
        ("gspmd.device_ids = 3", "", "gspmd.device_ids", "3 : i64, expected an array of integers"),
        ('tf.aliasing_output = "x"', "", "tf.aliasing_output", '"x", expected an integer'),
        ("tf.aliasing_output = 7 : i32", "", "tf.aliasing_output", "7, of 1 results"),
        ("tf.aliasing_output = -1 : i32", "", "tf.aliasing_output", "-1, of 1 results"),
        ("mhlo.frontend_attributes = 3", "", "mhlo.frontend_attributes", "3 : i64, expected a dictionary"),
        ("", "mhlo.frontend_attributes = 3", "mhlo.frontend_attributes", "3 : i64, expected a dictionary"),
        ("", "mhlo.num_partitions = [3]", "mhlo.num_partitions", "[3], expected an integer"),
    )
}
