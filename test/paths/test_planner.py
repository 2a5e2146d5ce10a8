"""Paths from any sharding to any other: right, chained, and never dearer than gathering everything."""

from __future__ import annotations

import random
from collections.abc import Iterable

import numpy as np
import pytest
from support.random_shardings import random_mesh, random_shape, random_sharding

from gspmd import api
from gspmd.dialect.axes import Axes, overlap, size_of, without
from gspmd.dialect.limits import MAX_RESHARD_MOVES
from gspmd.dialect.mesh import Mesh
from gspmd.dialect.notation import print_mesh, print_sharding
from gspmd.dialect.sdy_attrs import SdyCodec
from gspmd.dialect.sharding import TensorSharding, replicated
from gspmd.runtime import executable as runtime
from gspmd.transforms.exchange.blocks import block_exchange
from gspmd.transforms.exchange.step import REDUCTIONS, ReshardStep
from gspmd.transforms.exchange.step_notation import write_step
from gspmd.transforms.ir.types import TensorType
from gspmd.transforms.parsing.mlir import new_context, parse_module
from gspmd.transforms.paths.path import Path
from gspmd.transforms.paths.planner import Planner
from gspmd.transforms.paths.traffic import least_bytes, sent_by_step

Case = tuple[tuple[int, ...], TensorSharding, TensorSharding]


def cases(seed: int, count: int, unreduced: bool = False) -> tuple[Mesh, list[Case]]:
    rng = random.Random(seed)
    mesh = random_mesh(rng)
    found = []
    for _ in range(count):
        shape = random_shape(rng)
        source = random_sharding(rng, mesh, len(shape), unreduced)
        found.append((shape, source, random_sharding(rng, mesh, len(shape))))
    return mesh, found


# ---- paths as values ----


def left_partial(step: ReshardStep, before: TensorSharding) -> Axes:
    """The partial axes after a step, from the axes over which it reduces."""
    if step.kind not in REDUCTIONS:
        return before.unreduced
    reduced = (*step.axes, *(axis for axes in step.dims for axis in axes))
    assert not without(reduced, before.unreduced), "reduces what is not partial"
    return without(before.unreduced, reduced)


def program_of(type_: TensorType, source: TensorSharding, steps: Iterable[ReshardStep]) -> str:
    """A program with these steps, whose operations MLIR verifies against the shardings before and after."""
    context, mesh, lines = new_context(), source.mesh, list[str]()
    codec, shape = SdyCodec(context, {mesh.name: mesh}), f"tensor<{'x'.join(map(str, type_.shape))}xf32>"
    for index, step in enumerate(steps):
        name, attributes = write_step(step, codec)
        written = ", ".join(f"{key} = {value}" for key, value in attributes.items())
        lines.append(f'%{index + 1} = "{name}"(%{index}) {{{written}}} : ({shape}) -> {shape}')
    annotation = f"sdy.sharding = {codec.write(source)}"
    body = "\n".join(lines)
    return f"""
      sdy.mesh @{mesh.name} = {print_mesh(mesh)}
      func.func public @main(%0: {shape} {{{annotation}}}) -> {shape} {{
        {body}
        return %{len(lines)} : {shape}
      }}
    """


@pytest.mark.parametrize("seed", range(60))
def test_every_step_starts_where_the_one_before_it_ends(seed: int) -> None:
    mesh, found = cases(seed, 10, unreduced=seed % 2 == 1)
    planner = Planner(mesh)
    for shape, source, target in found:
        type_, state = TensorType(shape, "f32"), source
        steps = planner.plan(type_, source, target).steps
        parse_module(program_of(type_, source, steps), new_context())
        for step in steps:
            assert step.after.dim_axes() != state.dim_axes() or step.kind in REDUCTIONS, "changes nothing"
            assert step.after.unreduced == left_partial(step, state)
            assert not overlap(step.after.unreduced, [a for axes in step.after.dim_axes() for a in axes])
            state = step.after
        assert state == target


@pytest.mark.parametrize("seed", range(60))
def test_no_path_is_dearer_than_gathering_everything_and_cutting(seed: int) -> None:
    mesh, found = cases(1000 + seed, 10)
    planner = Planner(mesh)
    for shape, source, target in found:
        type_, whole = TensorType(shape, "f32"), replicated(mesh, len(shape))
        through = planner.plan(type_, source, whole).time_s + planner.plan(type_, whole, target).time_s
        assert planner.plan(type_, source, target).time_s <= through * (1 + 1e-12)


@pytest.mark.parametrize("seed", range(20))
def test_no_step_gathers_more_than_it_has_to_when_the_target_is_finer(seed: int) -> None:
    """Splitting further never communicates."""
    rng = random.Random(seed)
    mesh = random_mesh(rng)
    for _ in range(10):
        target = random_sharding(rng, mesh, 2)
        shape = tuple(8 * size_of(axes) for axes in target.dim_axes())
        source = target.with_axes(tuple(axes[: rng.randint(0, len(axes))] for axes in target.dim_axes()))
        steps = Planner(mesh).plan(TensorType(shape, "f32"), source, target).steps
        assert [step.kind for step in steps] in ([], ["all_slice"])


def test_sums_may_stay_partial_between_parts_of_an_axis_that_do_not_nest() -> None:
    mesh = Mesh((("x", 12),))
    whole, partial = replicated(mesh, 1), (mesh.axis("x", 1, 2),)
    source = whole.with_axes(((mesh.axis("x", 2, 2),),), partial)
    target = whole.with_axes(((mesh.axis("x", 2, 3),),), partial)
    steps = Planner(mesh).plan(TensorType((12,), "f32"), source, target).steps
    assert [(step.kind, step.after.unreduced) for step in steps] == [("reshard", partial)]


def test_large_uneven_tensors_are_not_gathered_whole() -> None:
    mesh = Mesh((("x", 4), ("y", 2)))
    x, y = (mesh.axis("x"),), (mesh.axis("y"),)
    whole, type_ = replicated(mesh, 2), TensorType((1001, 905), "f32")

    def steps(source: tuple[Axes, ...], target: tuple[Axes, ...]) -> tuple[ReshardStep, ...]:
        return Planner(mesh).plan(type_, whole.with_axes(source), whole.with_axes(target)).steps

    def kinds(source: tuple[Axes, ...], target: tuple[Axes, ...]) -> list[str]:
        return [step.kind for step in steps(source, target)]

    assert kinds((x, y), ((), y + x)) == ["all_to_all"]
    # Pairs of shards of 126 rows are joined, and neighbors exchange rows up to the boundaries of 251 rows.
    (gather,) = steps((x + y, ()), (x, ()))
    assert (gather.kind, gather.dims) == ("all_gather", (y, ()))
    sent = gather.sent(type_, whole.with_axes((x + y, ())))
    assert [(each.kind, each.local_bytes) for each in sent] == [
        ("all_gather", 4 * 905 * 126),
        ("collective_permute", 4 * 905 * 3),
    ]
    assert kinds((x, ()), (x + y, ())) == ["reshard"]
    assert all(any(step.after.dim_axes()) for step in steps((x, ()), (y, ())))


def local_bytes(shape: tuple[int, ...], sharding: TensorSharding) -> int:
    return 4 * int(np.prod(sharding.local_shape(shape)))


@pytest.mark.parametrize("seed", range(20))
def test_no_device_holds_more_of_a_large_tensor_than_at_both_ends(seed: int) -> None:
    rng = random.Random(seed)
    mesh = random_mesh(rng)
    for _ in range(10):
        shape = tuple(rng.choice((768, 1536)) for _ in range(3))
        source, target = (random_sharding(rng, mesh, 3) for _ in range(2))
        path = Planner(mesh).plan(TensorType(shape, "f32"), source, target)
        ends = max(local_bytes(shape, source), local_bytes(shape, target))
        assert path.peak_bytes <= ends
        assert all(local_bytes(shape, step.after) <= ends for step in path.steps)


@pytest.mark.parametrize("seed", range(20))
def test_no_device_holds_more_than_allowed_where_there_is_a_way(seed: int) -> None:
    rng = random.Random(seed)
    mesh = Mesh((("x", 4), ("y", 2)))
    for _ in range(10):
        shape = tuple(rng.choice((8, 16)) for _ in range(2))
        source, target = (random_sharding(rng, mesh, 2) for _ in range(2))
        path = Planner(mesh, max_temporary_bytes=1).plan(TensorType(shape, "f32"), source, target)
        assert path.peak_bytes <= max(local_bytes(shape, source), local_bytes(shape, target))


def test_a_bound_on_memory_costs_time() -> None:
    mesh = Mesh((("x", 4), ("y", 2)))
    x, y, type_ = (mesh.axis("x"),), (mesh.axis("y"),), TensorType((6, 16), "f32")
    whole = replicated(mesh, 2)
    source, target = whole.with_axes((x, y)), whole.with_axes((y, x))
    free, bound = (Planner(mesh, max_temporary_bytes=most).plan(type_, source, target) for most in (0, 1))
    assert [step.kind for step in free.steps] == ["all_gather", "all_slice"]
    assert [step.kind for step in bound.steps] == ["all_to_all", "collective_permute"]
    assert free.time_s < bound.time_s


def test_axes_go_to_other_dimensions_at_once() -> None:
    mesh = Mesh((("x", 4), ("y", 2)))
    x, y = (mesh.axis("x"),), (mesh.axis("y"),)
    whole, type_ = replicated(mesh, 3), TensorType((512, 512, 512), "f32")

    def kinds(source: tuple[Axes, ...], target: tuple[Axes, ...]) -> list[str]:
        return [step.kind for step in Planner(mesh).plan(type_, whole.with_axes(source), whole.with_axes(target)).steps]

    assert kinds((y, (), x), ((), x + y, ())) == ["reshard"]
    assert kinds((x, y, ()), ((), (), x + y)) == ["reshard"]
    assert kinds((x + y, (), ()), ((), y + x, ())) == ["reshard"]
    assert kinds((x + y, (), ()), (y + x, (), ())) == ["collective_permute"]
    assert kinds((x, y, ()), (y, x, ())) == ["reshard"]


def test_sums_are_scattered_where_they_are_before_they_change_places() -> None:
    mesh = Mesh((("x", 4), ("y", 2)))
    x, y = (mesh.axis("x"),), (mesh.axis("y"),)
    whole, type_ = replicated(mesh, 2), TensorType((512, 512), "f32")
    path = Planner(mesh).plan(type_, whole.with_axes((y, ()), x), whole.with_axes((x, ())))
    first, *others = [step.kind for step in path.steps]
    assert first == "reduce_scatter"
    assert others in (["collective_permute", "all_gather"], ["reshard"]), "these take equally long"


def test_the_same_question_is_answered_from_memory() -> None:
    mesh, ((shape, source, target), *_) = cases(3, 1)
    planner, type_ = Planner(mesh), TensorType(shape, "f32")
    assert planner.plan(type_, source, target) is planner.plan(type_, source, target)


def looked_at(mesh: Mesh, type_: TensorType, source: TensorSharding, target: TensorSharding) -> tuple[int, Path]:
    """How many moves the planner looks at, which is what planning takes time for, and the path."""
    planner = Planner(mesh)
    path = planner.plan(type_, source, target)
    return planner.moves_tried, path


@pytest.mark.parametrize("seed", range(5))
def test_planning_on_a_mesh_of_six_axes_comes_to_an_end(seed: int) -> None:
    rng = random.Random(seed)
    mesh = Mesh(tuple((name, 4) for name in "abcdef"))
    source, target = (random_sharding(rng, mesh, 4) for _ in range(2))
    moves, path = looked_at(mesh, TensorType((4096, 4096, 4096, 4096), "f32"), source, target)
    assert path.steps
    assert path.complete == (moves <= MAX_RESHARD_MOVES)
    assert moves < MAX_RESHARD_MOVES * 1.01


@pytest.mark.parametrize("seed", range(10))
def test_planning_for_256_devices_comes_to_an_end(seed: int) -> None:
    """Longest: four axes of two parts each, and a tensor that splits unevenly."""
    rng = random.Random(seed)
    mesh = Mesh(tuple((name, 4) for name in "abcd"))
    source, target = random_sharding(rng, mesh, 3, unreduced=True), random_sharding(rng, mesh, 3)
    moves, path = looked_at(mesh, TensorType((4095, 4095, 4095), "f32"), source, target)
    assert path.steps
    assert path.complete == (moves <= MAX_RESHARD_MOVES)
    assert moves < MAX_RESHARD_MOVES * 1.01


@pytest.mark.parametrize("sizes", [(4, 2), (32, 64), (64, 64), (512, 256)])
def test_planning_takes_no_longer_on_larger_meshes(sizes: tuple[int, int]) -> None:
    """Of a small tensor, whose slices cost next to nothing: with axes in prime factors there would be many states."""
    mesh = Mesh((("x", sizes[0]), ("y", sizes[1])))
    x, y, whole = (mesh.axis("x"),), (mesh.axis("y"),), replicated(mesh, 3)
    moves, path = looked_at(
        mesh, TensorType((512, 1024, 1), "f32"), whole.with_axes((x, (), ())), whole.with_axes(((), y, ()))
    )
    assert moves < 60
    assert len(path.steps) <= 2


@pytest.mark.parametrize("seed", range(20))
def test_no_path_between_even_shards_sends_less_than_devices_lack(seed: int) -> None:
    rng = random.Random(seed)
    mesh, type_ = Mesh((("x", 4), ("y", 4), ("z", 2))), TensorType((64, 64, 64), "f32")
    for _ in range(10):
        source, target = random_sharding(rng, mesh, 3, unreduced=True), random_sharding(rng, mesh, 3)
        path = Planner(mesh).plan(type_, source, target)
        sent = sum(each for _, each in sent_by_step(type_, source, path.steps))
        assert sent >= least_bytes(type_, source, target) * (1 - 1e-9)


@pytest.mark.parametrize("seed", range(40))
def test_exchanges_of_blocks_take_as_many_rounds_as_they_are_priced_for(seed: int) -> None:
    mesh, found = cases(3000 + seed, 20)
    for shape, source, target in found:
        if source.dim_axes() != target.dim_axes():
            exchange = block_exchange(mesh, shape, source.dim_axes(), target.dim_axes(), ())
            assert exchange is None or len(exchange.rounds) == exchange.messages


# ---- paths as programs ----


def there_and_back(mesh: Mesh, found: list[Case]) -> str:
    """A program that takes every tensor as its source sharding, returns it as its target, and as its source again."""
    types = [f"tensor<{'x'.join(map(str, shape))}xf32>" for shape, _, _ in found]
    sharding = [[f"#sdy.sharding{print_sharding(s)}" for s in pair] for _, *pair in found]
    arguments = [f"%a{i}: {t} {{sdy.sharding = {s[0]}}}" for i, (t, s) in enumerate(zip(types, sharding, strict=True))]
    results = [f"{t} {{sdy.sharding = {way}}}" for t, s in zip(types, sharding, strict=True) for way in reversed(s)]
    body = [
        line
        for i, (t, s) in enumerate(zip(types, sharding, strict=True))
        for line in (
            f"%t{i} = sdy.sharding_constraint %a{i} {s[1].removeprefix('#sdy.sharding')} : {t}",
            f"%b{i} = sdy.sharding_constraint %t{i} {s[0].removeprefix('#sdy.sharding')} : {t}",
        )
    ]
    values = ", ".join(f"%t{i}, %b{i}" for i in range(len(found)))
    returned = ", ".join(f"{t}, {t}" for t in types)
    return (
        f"sdy.mesh @mesh = {print_mesh(mesh)}\n"
        f"func.func public @main({', '.join(arguments)}) -> ({', '.join(results)}) {{\n"
        + "\n".join(body)
        + f"\nreturn {values} : {returned}\n}}\n"
    )


@pytest.mark.parametrize("seed", range(30))
def test_every_shard_arrives_and_comes_back(seed: int) -> None:
    mesh, found = cases(2000 + seed, 8)
    executable = runtime.compile(api.partition(there_and_back(mesh, found)), padding="nan")
    arrays = [np.arange(np.prod(shape), dtype=np.float32).reshape(shape) + 1 for shape, _, _ in found]
    results = executable(*arrays)
    for i, array in enumerate(arrays):
        for result, sharding in zip(results[2 * i : 2 * i + 2], reversed(found[i][1:]), strict=True):
            assert result.placement.dim_axes() == sharding.dim_axes()
            for shard in result.shards:
                np.testing.assert_array_equal(shard.to_numpy(), array[shard.index], f"{found[i]}")
