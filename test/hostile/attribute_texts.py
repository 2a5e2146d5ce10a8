"""Attributes as text: good ones, changed, in a program around them or alone."""

from __future__ import annotations

from random import Random

from hostile.mutations import mutated_words

_SDY = (
    '#sdy.sharding<@mesh, [{"x"}, {}]>', '#sdy.sharding<@mesh, [{"x", "y"}, {?}]>',
    '#sdy.sharding<@mesh, [{"x":(1)2, ?}p1, {}p0]>',
    '#sdy.sharding<@mesh, [{}, {}], replicated={"x"}, unreduced={"y"}>',
    '#sdy.sharding<mesh<["x"=4, "y"=2]>, [{"y"}, {"x"}]>',
    '#sdy.sharding<@mesh, [{"x":(1)2, "y"}, {"x":(2)2}]>', "#sdy.sharding<@empty, [{?}, {?}]>",
    "#sdy.sharding<@mesh, []>",
    "#sdy.sharding<@max, []>", '#sdy.sharding<mesh<["x"=4], device_ids=[3, 1, 2, 0]>, [{}, {"x"}]>',
)  # fmt: skip
_PER_VALUE = (
    '#sdy.sharding_per_value<[<@mesh, [{"x"}, {}]>]>', '#sdy.sharding_per_value<[<@mesh, [{?}, {"y", ?}]>]>',
    "#sdy.sharding_per_value<[]>",
    '#sdy.sharding_per_value<[<@mesh, [{"x":(1)2}, {}], unreduced={"y"}>, <@mesh, [{}]>]>',
)  # fmt: skip
_HLO = (
    "{replicated}", "{manual}", "{unknown}", "{unreduced}", "{maximal device=1}", "{devices=[4,2]<=[8]}",
    "{devices=[2,4]<=[4,2]T(1,0)}",
    "{devices=[4,1,2]<=[8] last_tile_dim_replicate}", "{devices=[8,1]0,3,1,6,2,5,4,7}", "{unknown shard_as 3}",
    "{devices=[2,2,2]<=[2,2,2]T(2,0,1) last_tile_dims={manual}}",
    "{devices=[1,1,4,2]<=[8] last_tile_dims={manual, replicated}}",
    "{{replicated}, {devices=[2,1]<=[2]}}", "{devices=[2,1]<=[2] shard_like 7}",
    "{devices=[4,2]<=[8] metadata={op_name=\\22a\\22}}",
    "{mesh['x'=4,'y'=2], [{'x'}, {}]}", "{mesh['x'=4,'y'=2], [{'x':(1)2}, {'y'}], replicated={'x':(2)2}}", "{}",
    "{mesh['a'=8], device_ids=([2,4]T(1,0)), [{'a'}, {}]}", "{maximal_mesh[device_id=3]}",
)  # fmt: skip
_MESHES = ('{mesh = #sdy.mesh<[\\22x\\22=4, \\22y\\22=2]>}', "{}",
           "{mesh = #sdy.mesh<[]>, other = #sdy.mesh<[\\22x\\22=8]>}",
           "{mesh = #sdy.mesh<[\\22x\\22=4], device_ids=[3, 2, 1, 0]>}")  # fmt: skip
_RULES = (
    "#sdy.op_sharding_rule<([i, j])->([i, j]) {i=8, j=8}>",
    "#sdy.op_sharding_rule<([i, j])->([i, j]) {i=8, j=8}, custom>",
    "#sdy.op_sharding_rule<([i, kl])->([i, k]) {i=8, k=4, l=2} reduction={l} need_replication={k}, custom>",
    "#sdy.op_sharding_rule<([])->([i, j]) {i=8, j=8} permutation={i} blocked_propagation={j}, custom>",
)  # fmt: skip
_AXES = ('"x"', '"x", "y"', '"x":(1)2', "")
_PLAIN_MESH = (
    '<["x"=4, "y"=2]>',
    '<["x"=8], device_ids=[7, 6, 5, 4, 3, 2, 1, 0]>',
    "<[]>",
    "<[], device_ids=[3]>",
    '<["a b"=2, "c"=1]>',
)
_PLAIN_RULES = ("([i, j])->([i, j])", "([i, k], [k, j])->([i, j]) reduction={k}", "([ij])->([i, j]) {i=4, j=2}",
                "([])->([])",
                "([i])->([i]) need_replication={i}", "([i, *], [*])->([i, *])",
                "([z_1, a])->([z_1, a]) {z_1=2, a=3}")  # fmt: skip

_HEAD = """\
sdy.mesh @mesh = <["x"=4, "y"=2]>
sdy.mesh @empty = <[]>
sdy.mesh @max = <[], device_ids=[1]>
"""


def _main(argument: str = "", operation: str = "", result: str = "", module: str = "", head: str = _HEAD) -> str:
    body = operation or "  %0 = stablehlo.negate %a : tensor<8x8xf32>\n"
    main = (
        f"func.func public @main(%a: tensor<8x8xf32>{argument}) -> (tensor<8x8xf32>{result}) {{\n{body}"
        "  return %0 : tensor<8x8xf32>\n}\n"
    )
    return f"module @m attributes {{{module}}} {{\n{head}{main}}}\n" if module else head + main


def attribute_program(rng: Random) -> str:
    """A program in which one attribute is odd."""
    texts, templates = rng.choice(_PLACES)
    text = rng.choice(texts)
    for _ in range(rng.choice((0, 1, 1, 1, 2, 3))):
        text = mutated_words(rng, text, rng.choice(texts))
    return rng.choice(templates).replace("@@", text[:200_000])


def notation(rng: Random) -> tuple[str, str]:
    """The name of a notation, and a text that may be in it."""
    kind = rng.choice(sorted(_NOTATIONS))
    texts = _NOTATIONS[kind]
    text = rng.choice(texts)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        text = mutated_words(rng, text, rng.choice(texts))
    return kind, text[:300_000]


def _custom_call(target: str, attributes: str) -> str:
    call = f"  %0 = stablehlo.custom_call @{target}(%a) {{{attributes}}} : (tensor<8x8xf32>) -> tensor<8x8xf32>\n"
    return _main(operation=call)


_PLACES = (
    (_SDY, (
        _main(" {sdy.sharding = @@}"),
        _main(result=" {sdy.sharding = @@}"),
        _main(operation="  %0 = stablehlo.negate %a {sdy.sharding = @@} : tensor<8x8xf32>\n"),
        _main(' {mhlo.frontend_attributes = {xla.sdy.sharding = "@@"}}'),
    )),
    (tuple(text.removeprefix("#sdy.sharding") for text in _SDY), (
        _main(operation="  %0 = sdy.sharding_constraint %a @@ : tensor<8x8xf32>\n"),
        _main(operation="  %0 = sdy.reshard %a @@ : tensor<8x8xf32>\n"),
    )),
    (_PER_VALUE, (
        _main(operation="  %0 = stablehlo.negate %a {sdy.sharding = @@} : tensor<8x8xf32>\n"),
        _main(operation='  %0 = stablehlo.negate %a {mhlo.frontend_attributes = {xla.sdy.sharding = "@@"}} : '
              'tensor<8x8xf32>\n'),
        _custom_call("xla.sdy.FuncResultSharding", 'mhlo.frontend_attributes = {xla.sdy.sharding = "@@"}'),
        _custom_call("xla.sdy.GlobalToLocalShape", 'mhlo.frontend_attributes = {xla.sdy.in_shardings = "@@", '
                     'xla.sdy.manual_axes = "#sdy<manual_axes{\\22x\\22}>"}'),
        _custom_call("Sharding", 'mhlo.frontend_attributes = {xla.sdy.sharding = "@@"}'),
    )),
    (_HLO, (
        _main(' {mhlo.sharding = "@@"}', head=""),
        _main(' {mhlo.sharding = "@@"}'),
        _main(result=' {mhlo.sharding = "@@"}', head=""),
        _main(operation='  %0 = stablehlo.negate %a {mhlo.sharding = "@@"} : tensor<8x8xf32>\n', head=""),
        _custom_call("Sharding", 'mhlo.sharding = "@@"'),
        _custom_call("Sharding", 'backend_config = "unspecified_dims=[0,1]", mhlo.sharding = "@@"'),
        _custom_call("SPMDFullToShardShape", 'mhlo.sharding = "@@"'),
        _custom_call("SPMDShardToFullShape", 'mhlo.sharding = "@@"'),
    )),
    (_MESHES, (_main(module='mhlo.frontend_attributes = {xla.sdy.meshes = "@@"}', head=""),
               _main(' {mhlo.frontend_attributes = {xla.sdy.sharding = "#sdy.sharding<@mesh, [{\\22x\\22}, {}]>"}}',
                     module='mhlo.frontend_attributes = {xla.sdy.meshes = "@@"}', head=""))),
    (_RULES, (_custom_call("mine", "sdy.sharding_rule = @@"),
              _custom_call("mine", 'mhlo.frontend_attributes = {xla.sdy.sharding_rule = "@@"}'),
              _main(operation="  %0 = stablehlo.negate %a {sdy.sharding_rule = @@} : tensor<8x8xf32>\n"))),
    (_AXES, (_custom_call("xla.sdy.LocalToGlobalShape",
                          'mhlo.frontend_attributes = {xla.sdy.manual_axes = "#sdy<manual_axes{@@}>"}'),
             _main(operation="  %0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{@@}, {}]>] out_shardings="
                   "[<@mesh, [{}, {@@}]>] manual_axes={@@} (%b: tensor<2x8xf32>) {\n    sdy.return %b : "
                   "tensor<2x8xf32>\n  } : (tensor<8x8xf32>) -> tensor<8x8xf32>\n"))),
    (_PLAIN_MESH, (_main(' {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}', head="sdy.mesh @mesh = @@\n"),
                   _main(module="gspmd.mesh = #sdy.mesh@@", head=""))),
    (("unspecified_dims=[0,1]", "unspecified_dims=[]", '{\\22a\\22: 1}', ""), (
        _custom_call("Sharding", 'backend_config = "@@", mhlo.sharding = "{devices=[2,1]<=[2]}"'),
        _custom_call("mine", 'backend_config = "@@", mhlo.frontend_attributes = {num_batch_dims = "@@"}'))),
    (("1", "21 : i64", "-1 : i32", "1 : i32", "2", "8 : i32"), (
        _custom_call("xla.sdy.ShardingGroup",
                     'has_side_effect = true, mhlo.frontend_attributes = {xla.sdy.sharding_group_id = "@@"}'),
        _custom_call("xla.sdy.PropagationBarrier", 'mhlo.frontend_attributes = {xla.sdy.allowed_direction = "@@"}'),
        _main(module="mhlo.num_partitions = @@"), _main(module="mhlo.num_replicas = @@"),
        _main(" {tf.aliasing_output = @@}"))),
    (("unknown", '"f.py":1:1', '"a"("f.py":1:2)', 'callsite("f"("g.py":1:1) at "h.py":2:2)', 'fused<"x">["a", "b"]'), (
        _main(operation="  %0 = stablehlo.negate %a : tensor<8x8xf32> loc(@@)\n"),
        _main(operation="  %0 = stablehlo.custom_call @nobody(%a) : (tensor<8x8xf32>) -> tensor<8x8xf32> loc(@@)\n"))),
)  # fmt: skip
_NOTATIONS = {
    "hlo_sharding": tuple(text.replace("\\22", '"') for text in _HLO),
    "sdy_sharding": tuple(text.removeprefix("#sdy.sharding") for text in _SDY),
    "mesh": _PLAIN_MESH,
    "axes": ('{"x"}', '{"x", "y"}', '{"x":(1)2}', "{}"),
    "rule": _PLAIN_RULES,
}
