"""What partitioners are known to do badly, each done as one who writes the collectives by hand would do it.

Every program is run on 8 devices and compared with the unpartitioned one.
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import gspmd

Spec = tuple[tuple[int, ...], tuple[Any, ...]]
"""A shape, and the mesh axes of its dimensions."""
MESH = {"x": 4, "y": 2}
RING = {"x": 8}
F32 = 4


def lowered(
    function: Callable[..., Any], axes: dict[str, int], *arguments: Spec, ids: Spec | None = None, out: Any = None
) -> str:
    """The annotated text of a function of f32 and, last, of whole numbers; `out` are the axes of its one result."""
    mesh = Mesh(np.array(jax.devices()[: math.prod(axes.values())]).reshape(tuple(axes.values())), tuple(axes))
    given = [*arguments, *([ids] if ids else [])]
    types = [jnp.float32] * len(arguments) + [jnp.int32] * (len(given) - len(arguments))
    shapes = [jax.ShapeDtypeStruct(shape, dtype) for (shape, _), dtype in zip(given, types, strict=True)]
    shardings = tuple(NamedSharding(mesh, PartitionSpec(*dims)) for _, dims in given)
    wanted = {} if out is None else {"out_shardings": NamedSharding(mesh, PartitionSpec(*out))}
    with mesh:
        return str(jax.jit(function, in_shardings=shardings, **wanted).lower(*shapes).as_text(debug_info=True))


def split(value: Any, *dims: Any) -> Any:
    return jax.lax.with_sharding_constraint(value, PartitionSpec(*dims))


def collectives(text: str, inputs: list[Any] | None = None) -> list[gspmd.Collective]:
    """Those of the partitioned program, whose results are right."""
    partitioned = gspmd.partition(text)
    assert gspmd.check(text, partitioned, inputs=inputs)
    return list(partitioned.collectives)


def kinds(found: list[gspmd.Collective]) -> dict[str, int]:
    return dict(Counter(c.kind for c in found))


def runs(found: list[gspmd.Collective]) -> dict[str, int]:
    """How often collectives of each kind run in a call."""
    total: Counter[str] = Counter()
    for collective in found:
        assert collective.count is not None
        total[collective.kind] += collective.count
    return dict(total)


# ---- moves along two axes ----

SHARD = 64**3 * F32 // 8  # bytes of what a device has


@pytest.mark.parametrize("way", ["forward", "back"])
@pytest.mark.parametrize("joined", [("x", "y"), ("y", "x")], ids="-".join)
def test_two_axes_come_together_in_one_dimension_without_a_gather(joined: tuple[str, str], way: str) -> None:
    """One all-to-all over both axes: a device keeps an eighth of what it has and sends the rest."""
    apart, together = ("y", None, "x"), (None, joined, None)
    source, target = (apart, together) if way == "forward" else (together, apart)
    found = collectives(lowered(lambda v: v + 1, MESH, ((64, 64, 64), source), out=target))
    assert [(c.kind, c.bytes) for c in found] == [("all_to_all", SHARD * 7 // 8)]


def test_an_axis_moves_under_another_without_a_gather() -> None:
    """From y on dim 1 and x on dim 2 to (x, y) on dim 1, where the order of devices changes as well."""
    found = collectives(lowered(lambda v: v + 1, MESH, ((64, 64, 64), (None, "y", "x")), out=(None, ("x", "y"), None)))
    assert set(kinds(found)) <= {"all_to_all", "collective_permute"}
    assert sum(c.bytes for c in found) <= SHARD


# ---- accumulated gradients ----


def accumulated(parts: Any, w1: Any, w2: Any) -> Any:
    def step(total: Any, part: Any) -> Any:
        return total + ((jnp.tanh(part @ w1) @ w2) ** 2).mean(), None

    return jax.lax.scan(step, 0.0, parts)[0]


EXAMPLES = 1024
MATRICES: tuple[Spec, Spec] = (((64, 256), ()), ((256, 64), ()))
MATRIX = 64 * 256 * F32
BY_PARTS = [("reduce_scatter", MATRIX // 2 * 3 // 4), ("all_gather", MATRIX * 7 // 8)]
"""A gradient of which devices along y each make a half: they sum it over x by parts, and then send these to all."""


def large(found: list[gspmd.Collective]) -> list[tuple[str, int]]:
    """Kinds and bytes of what is more than a number; all of it runs once."""
    assert all(c.count == 1 for c in found if c.bytes > F32 * 2)
    return [(c.kind, c.bytes) for c in found if c.bytes > F32 * 2]


@pytest.mark.parametrize(
    ("batch", "gradient"), [("x", BY_PARTS), (("x", "y"), [("all_reduce", 2 * MATRIX * 7 // 8)])], ids=["x", "xy"]
)
def test_microbatches_of_every_devices_examples_keep_the_batch_split(
    batch: Any, gradient: list[tuple[str, int]]
) -> None:
    """Nothing of the batch is sent, and gradients are reduced once, after the loop."""

    def loss(x: Any, w1: Any, w2: Any) -> Any:
        return accumulated(x.reshape(x.shape[0] // 4, 4, -1).swapaxes(0, 1), w1, w2)

    text = lowered(jax.value_and_grad(loss, argnums=(1, 2)), MESH, ((EXAMPLES, 64), (batch, None)), *MATRICES)
    found = collectives(text)
    assert large(found) == gradient * 2
    assert [c.kind for c in found if c.bytes <= F32 * 2] == ["all_reduce"]


@pytest.mark.parametrize("said", [True, False], ids=["annotated", "plain"])
def test_microbatches_cut_from_the_batch_in_order_are_exchanged_once(said: bool) -> None:
    """Each microbatch lies on one device before: an all-to-all gives every device its part of every one."""

    def loss(x: Any, w1: Any, w2: Any) -> Any:
        parts = x.reshape(4, -1, x.shape[-1])
        return accumulated(split(parts, None, "x", None) if said else parts, w1, w2)

    text = lowered(jax.value_and_grad(loss, argnums=(1, 2)), MESH, ((EXAMPLES, 64), ("x", None)), *MATRICES)
    found = collectives(text)
    assert large(found) == [("all_to_all", EXAMPLES * 64 * F32 // 4 * 3 // 4), *BY_PARTS, *BY_PARTS]
    assert [c.kind for c in found if c.bytes <= F32 * 2] == ["all_reduce"]
    # Over y, two of the five products are computed twice, as said; the others are shared.
    assert gspmd.cost(text).flops_ratio == pytest.approx(7 / 5, abs=0.02)


# ---- vocabulary parallelism ----

BATCH, SEQUENCE, MODEL, WORDS = 8, 32, 64, 512


def cross_entropy(x: Any, table: Any, ids: Any) -> Any:
    scores = jax.nn.log_softmax(jnp.einsum("bsm,vm->bsv", x + table[ids], table))
    return -jnp.take_along_axis(scores, ids[..., None], -1).mean()


@pytest.mark.parametrize("trained", [False, True], ids=["loss", "gradient"])
def test_an_embedding_and_a_cross_entropy_over_a_split_vocabulary_gather_no_logits(trained: bool) -> None:
    """Over the vocabulary: the looked-up rows and their gradient, and a few numbers for every position."""
    function = jax.value_and_grad(cross_entropy, argnums=(0, 1)) if trained else cross_entropy
    arguments: tuple[Spec, ...] = (((BATCH, SEQUENCE, MODEL), ("x",)), ((WORDS, MODEL), ("y", None)))
    ids = np.random.default_rng(0).integers(0, WORDS, (BATCH, SEQUENCE)).astype(np.int32)
    floats = [np.random.default_rng(n).normal(size=s).astype(np.float32) for n, (s, _) in enumerate(arguments)]
    text = lowered(function, MESH, *arguments, ids=((BATCH, SEQUENCE), ("x",)))
    found = collectives(text, [*floats, ids])
    positions = BATCH * SEQUENCE // 4 * F32
    # The scores of the words that came are summed by parts, as only their mean is wanted.
    parts = [(c.kind, c.axes, c.bytes) for c in found if c.kind != "all_reduce"]
    assert parts == [("reduce_scatter", '"y"', positions // 2)]
    over_words = [c.bytes for c in found if c.axes == '"y"']
    assert sum(over_words) <= (2 if trained else 1) * positions * MODEL + 4 * positions
    logits = BATCH // 4 * SEQUENCE * WORDS // 2 * F32
    assert max(over_words) <= logits // 4


# ---- rolls ----

WIDE = 4096
"""Elements of a row: so many that what is sent counts more than how many collectives do it."""


@pytest.mark.parametrize(("size", "shift"), [(16, 1), (16, 2), (16, 3), (16, -5), (16, 8), (24, 7), (24, -1)])
def test_a_roll_of_a_split_dimension_is_permutes_of_what_changes_hands(size: int, shift: int) -> None:
    found = collectives(lowered(lambda v: jnp.roll(v, shift, 0), RING, ((size, WIDE), ("x",)), out=("x",)))
    assert set(kinds(found)) == {"collective_permute"}
    local = size // 8
    stays = local - min(shift % size, -shift % size, local)
    assert sum(c.bytes for c in found) == (local - stays) * WIDE * F32


# ---- reduce-scatter ----


def test_a_product_over_a_split_contraction_with_a_split_result_is_scattered() -> None:
    text = lowered(lambda a, b: a @ b, MESH, ((64, 128), (None, "y")), ((128, 64), ("y", None)), out=("y", None))
    assert kinds(collectives(text)) == {"reduce_scatter": 1}


def test_a_product_over_a_split_contraction_is_scattered_inside_a_scan() -> None:
    def layers(h: Any, w1: Any, w2: Any) -> Any:
        def layer(h: Any, w: Any) -> Any:
            hidden = split(jax.nn.relu(h @ w[0]), None, "y")
            return split(hidden @ w[1], "y", None), None

        return jax.lax.scan(layer, h, (w1, w2))[0]

    weights: tuple[Spec, Spec] = (((3, 64, 128), (None, None, "y")), ((3, 128, 64), (None, "y", None)))
    found = collectives(lowered(layers, MESH, ((64, 64), ("y", None)), *weights, out=("y", None)))
    assert runs(found) == {"all_gather": 3, "reduce_scatter": 3}
    assert {c.bytes for c in found} == {64 * 64 * F32 // 2}


# ---- mixture of experts ----


def experts(x: Any, w1: Any, w2: Any, gate: Any) -> Any:
    """Top-1 gating with capacity; groups of tokens over "x" before, experts over "x" after the dispatch."""
    number, capacity = gate.shape[1], x.shape[1] // gate.shape[1] * 2
    probabilities = jax.nn.softmax(jnp.einsum("gsm,me->gse", x, gate))
    chosen = jax.nn.one_hot(probabilities.argmax(-1), number)
    place = jnp.cumsum(chosen, axis=1) * chosen - 1
    dispatch = jax.nn.one_hot(place.astype(jnp.int32), capacity) * chosen[..., None]
    sent = split(jnp.einsum("gsec,gsm->egcm", dispatch, x), "x", None, None, None)
    hidden = jax.nn.relu(jnp.einsum("egcm,emh->egch", sent, w1))
    back = split(jnp.einsum("egch,ehm->egcm", hidden, w2), "x", None, None, None)
    return split(jnp.einsum("gsec,egcm->gsm", dispatch * probabilities[..., None], back), "x", None, None)


@pytest.mark.parametrize("axes", [RING, MESH], ids=["8", "4x2"])
@pytest.mark.parametrize("trained", [False, True], ids=["forward", "backward"])
def test_experts_exchange_tokens_twice_each_way(axes: dict[str, int], trained: bool) -> None:
    hidden = "y" if "y" in axes else None
    arguments: tuple[Spec, ...] = (
        ((8, 64, 32), ("x", None, None)),
        ((8, 32, 128), ("x", None, hidden)),
        ((8, 128, 32), ("x", hidden, None)),
        ((32, 8), ()),
    )
    function = experts
    if trained:
        function = jax.grad(lambda *given: (experts(*given) ** 2).mean(), argnums=(0, 1, 2, 3))
    found = collectives(lowered(function, axes, *arguments))
    tokens = 8 * 8 * 16 * 32 * F32 // axes["x"]
    sent = tokens * (axes["x"] - 1) // axes["x"]
    if hidden:  # a sum over hidden units is scattered and gathered; or experts are split over both axes instead
        sums = tokens // 2 + 8 * 64 * 32 * F32 // axes["x"] // 2
        gate = 32 * 8 * F32 * 2 * trained
        assert sum(c.bytes for c in found) <= (1 + trained) * (sent + sent // axes["y"] + sums) + gate
    else:
        assert [c.bytes for c in found if c.kind == "all_to_all"] == [sent] * 2 * (1 + trained)
        assert Counter(kinds(found)) == Counter(all_to_all=2 * (1 + trained), all_reduce=int(trained)), (
            "that of the gate's gradient"
        )


# ---- pipelines ----

STAGES, STEPS = 8, 6
MICROBATCH, STAGE_MODEL = 16, 128
FED: tuple[Spec, Spec] = (
    ((STEPS, MICROBATCH, STAGE_MODEL), ()),
    ((STAGES, STAGE_MODEL, STAGE_MODEL), ("x", None, None)),
)


def rolled(buffer: Any, fresh: Any) -> Any:
    return jnp.roll(buffer, 1, axis=0).at[0].set(fresh)


def joined(buffer: Any, fresh: Any) -> Any:
    return jnp.concatenate([fresh[None], buffer[:-1]])


def rolled_and_updated(buffer: Any, fresh: Any) -> Any:
    return jax.lax.dynamic_update_slice(jnp.roll(buffer, 1, axis=0), fresh[None], (0, 0, 0))


def updated(buffer: Any, fresh: Any) -> Any:
    shifted = jax.lax.dynamic_update_slice(jnp.zeros_like(buffer), buffer[:-1], (1, 0, 0))
    return jax.lax.dynamic_update_slice(shifted, fresh[None], (0, 0, 0))


def padded(buffer: Any, fresh: Any) -> Any:
    first = (jnp.arange(buffer.shape[0]) == 0)[:, None, None]
    return jnp.where(first, fresh, jnp.pad(buffer, ((1, 0), (0, 0), (0, 0)))[:-1])


def pipeline(shift: Callable[[Any, Any], Any], fed: Any, weights: Any) -> Any:
    """The stages' buffer after the last step."""

    def step(buffer: Any, fresh: Any) -> Any:
        buffer = split(shift(buffer, fresh), "x", None, None)
        return split(jnp.tanh(jnp.einsum("pbm,pmh->pbh", buffer, weights)), "x", None, None), None

    start = split(jnp.zeros((STAGES, *fed.shape[1:])), "x", None, None)
    return jax.lax.scan(step, start, fed)[0]


@pytest.mark.parametrize("axes", [RING, MESH], ids=["8", "4x2"])
@pytest.mark.parametrize("shift", [rolled, joined, rolled_and_updated, updated, padded], ids=lambda f: str(f.__name__))
def test_a_buffer_of_stages_is_shifted_by_one_permute_a_step(
    shift: Callable[[Any, Any], Any], axes: dict[str, int]
) -> None:
    found = collectives(lowered(functools.partial(pipeline, shift), axes, *FED, out=("x",)))
    assert runs(found) == {"collective_permute": STEPS}
    assert [c.bytes for c in found] == [MICROBATCH * STAGE_MODEL * F32]


@pytest.mark.parametrize("shift", [rolled, joined, rolled_and_updated, updated, padded], ids=lambda f: str(f.__name__))
def test_a_pipelines_gradient_is_shifted_back_by_one_permute_a_step(shift: Callable[[Any, Any], Any]) -> None:
    def loss(fed: Any, weights: Any) -> Any:
        return (pipeline(shift, fed, weights) ** 2).sum()

    found = collectives(lowered(jax.grad(loss, argnums=1), RING, *FED))
    assert runs(found) == {"collective_permute": 2 * STEPS}
    assert [c.bytes for c in found] == [MICROBATCH * STAGE_MODEL * F32] * 2


# ---- what operations do in a row ----


@pytest.mark.parametrize("shape", [(4096,), (1024, 64)], ids=str)
def test_what_is_gathered_for_a_sort_serves_a_whole_result(shape: tuple[int, ...]) -> None:
    """Each device is sent the seven eighths that it lacks, once."""
    found = collectives(lowered(lambda v: jax.lax.sort(v, dimension=0), RING, (shape, ("x",)), out=()))
    assert sum(c.bytes for c in found) <= math.prod(shape) * F32 * 7 // 8


@pytest.mark.parametrize("k", [1024, 1200])
def test_the_largest_of_shards_that_are_not_longer_are_found_in_the_whole(k: int) -> None:
    """Values without their places are less than both of as many of every shard."""
    found = collectives(lowered(lambda v: jax.lax.top_k(v, k)[1], RING, ((1, 8192), (None, "x")), out=()))
    assert [(c.kind, c.bytes) for c in found] == [("all_gather", 8192 * F32 * 7 // 8)]


@pytest.mark.parametrize("k", [128, 200])
def test_the_largest_of_many_rows_are_found_in_whole_rows(k: int) -> None:
    """Every device takes an eighth of the rows, and sends the places that it found in them."""
    found = collectives(lowered(lambda v: jax.lax.top_k(v, k)[1], RING, ((16, 1024), (None, "x")), out=()))
    exchanged, places = 16 * 1024 * F32 // 8 * 7 // 8, 16 * k * F32 * 7 // 8
    assert [(c.kind, c.bytes) for c in found] == [("all_to_all", exchanged), ("all_gather", places)]


@pytest.mark.parametrize("split", [("x", None), (None, "x")], ids=str)
def test_a_transform_and_its_inverse_leave_what_is_between_them_as_both_want_it(split: tuple[Any, ...]) -> None:
    def filtered(v: Any) -> Any:
        return jnp.fft.irfft2(jnp.fft.rfft2(v) * 2)

    found = collectives(lowered(filtered, RING, ((256, 256), split), out=()))
    assert sum(c.bytes for c in found) <= 256 * 256 * F32 * 7 // 8


def test_padding_between_elements_is_not_sent() -> None:
    """Every device's part of the padded value is made of its own rows."""
    found = collectives(
        lowered(lambda v: jax.lax.pad(v, 0.0, [(1, 0, 1), (0, 0, 0)]), RING, ((64, 16), ("x",)), out=("x",))
    )
    assert not found


@pytest.mark.parametrize("interior", [1, 2, 4])
def test_a_shift_of_dilated_rows_sends_rows(interior: int) -> None:
    """`interior` rows of padding between two, and as much at one end that a row of every shard moves on."""
    size, low = 16, 1 + interior

    def shifted(v: Any) -> Any:
        return jax.lax.pad(v, 0.0, [(low, interior - low, interior), (0, 0, 0)])

    found = collectives(lowered(shifted, RING, ((size, 16), ("x",)), out=("x",)))
    assert [(c.kind, c.bytes) for c in found] == [("collective_permute", 16 * F32)]


def test_a_pad_that_is_cut_again_moves_what_the_cut_leaves() -> None:
    def moved(v: Any) -> Any:
        return jax.lax.slice(split(jax.lax.pad(v, 0.0, [(2, 6, 0), (0, 0, 0)]), "x"), (1, 0), (65, 16))

    found = collectives(lowered(lambda v: split(moved(v), "x"), RING, ((64, 16), ("x",)), out=("x",)))
    assert [(c.kind, c.bytes) for c in found] == [("collective_permute", 16 * F32)]


def turned(start: int, v: Any) -> Any:
    """A value from an index of its first dimension on, and then what is before it."""
    twice = split(jnp.concatenate([v, v], 0), "x")
    return split(jax.lax.dynamic_slice(twice, (start, *[0] * (v.ndim - 1)), v.shape), "x")


@pytest.mark.parametrize("start", [5, 8])
def test_a_value_beside_itself_cut_where_a_constant_says(start: int) -> None:
    """XLA sends 1.4 times as much."""
    found = collectives(lowered(functools.partial(turned, start * 1024), RING, ((64 * 1024,), ("x",)), out=("x",)))
    assert set(kinds(found)) == {"collective_permute"}
    assert sum(c.bytes for c in found) == 32 * 1024 * F32


@pytest.mark.parametrize("start", [5, 8])
def test_columns_of_a_value_beside_itself_are_cut_where_a_constant_says(start: int) -> None:
    """Every device takes its part of the columns, in which the rows are turned, and gives them back."""
    found = collectives(lowered(functools.partial(turned, start), RING, ((64, 1024), ("x",)), out=("x",)))
    assert [(c.kind, c.bytes) for c in found] == [("all_to_all", 64 * 1024 * F32 // 8 * 7 // 8)] * 2


@pytest.mark.parametrize(("rows", "kind"), [(1, "all_reduce"), (3, "all_reduce"), (5, "all_gather")])
def test_rows_of_few_devices_are_gathered_without_padding(rows: int, kind: str) -> None:
    """Seven rows of padding and one of the value: an all-reduce of the row sends a quarter of what a gather would."""
    sharding = 'sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>'
    text = f"""
    sdy.mesh @mesh = <["x"=8]>
    func.func @main(%a: tensor<{rows}x16xf32> {{{sharding}}})
        -> (tensor<{rows}x16xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{}}, {{}}]>}}) {{
      return %a : tensor<{rows}x16xf32>
    }}
    """
    found = collectives(text)
    assert [c.kind for c in found] == [kind]
    assert found[0].bytes == (7 if kind == "all_gather" else 7 / 8 * 2 * rows) * 16 * F32


def test_what_is_returned_whole_is_gathered_once_and_used() -> None:
    """A product, and its sum with a bias, are both wanted whole."""

    def both(v: Any, w: Any) -> Any:
        product = split(v @ w, "x", None)
        return split(product, None, None), split(product + 1, None, None)

    found = collectives(lowered(both, RING, ((64, 32), ("x", None)), ((32, 32), ())))
    assert [(c.kind, c.bytes) for c in found] == [("all_gather", 64 * 32 * F32 * 7 // 8)]


def test_a_value_that_is_whole_before_a_constraint_is_so_behind_it() -> None:
    found = collectives(lowered(lambda v: split(v, "x", None) * 2, RING, ((64, 32), (None, None)), out=(None, None)))
    assert not found


def test_rows_along_a_split_dimension_are_gathered_once_for_a_loop() -> None:
    """One in each of 16 steps would be reduced sixteen times, which sends twice as much."""

    def steps(rows: Any, w: Any) -> Any:
        return jax.lax.scan(lambda h, row: (jnp.tanh(h @ w + row), None), jnp.zeros((16, 16)), rows)[0]

    found = collectives(lowered(steps, RING, ((16, 16, 16), ("x",)), ((16, 16), ())))
    assert runs(found) == {"all_gather": 1}


def test_rows_along_a_split_dimension_of_which_each_device_needs_a_part_change_hands_before_a_loop() -> None:
    """Steps that are split along another dimension take parts of rows: an all-to-all gives every device its part."""
    batch, model = 8, 512

    def steps(rows: Any, w: Any) -> Any:
        def step(h: Any, row: Any) -> Any:
            return split(jnp.tanh(h @ w + row), None, "x"), None

        return jax.lax.scan(step, jnp.zeros((batch, model)), rows)[0]

    found = collectives(lowered(steps, RING, ((16, batch, model), ("x",)), ((model, model), (None, "x"))))
    assert runs(found) == {"all_to_all": 1, "all_gather": 16}
    rows, row = 16 * batch * model * F32 // 8 * 7 // 8, batch * model * F32 * 7 // 8
    assert {c.kind: c.bytes for c in found} == {"all_to_all": rows, "all_gather": row}


def test_a_weight_is_gathered_for_an_outer_product_rather_than_the_product() -> None:
    """Nothing is summed up in an outer product, so that to repeat it on every device is no arithmetic to be spared."""

    def product(a: Any, b: Any) -> Any:
        return split(jnp.einsum("i,j->ij", a, b), None, None)

    (found,) = collectives(lowered(product, RING, ((512,), ()), ((512,), ("x",))))
    assert found.bytes < 512 * F32


def test_an_argument_that_nobody_annotated_is_where_it_is_used() -> None:
    """The contraction that it is needed for is along the dimension that a sum before was split along."""

    def projected(v: Any, w: Any) -> Any:
        return split(jnp.einsum("bd,dm->bm", split(v, None, None), w), None, "x")

    assert not collectives(lowered(projected, RING, ((16, 32), (None, None)), ((32, 64), ())))
