"""Models whose completion and communication are compared, lowered by JAX for both kinds of annotations."""

from __future__ import annotations

import dataclasses
import functools
import importlib
from collections.abc import Callable
from typing import Any, Protocol

Spec = tuple[tuple[int, ...], tuple[Any, ...]]
"""A shape, and the mesh axes of its dimensions."""


class Model(Protocol):
    """A model that can be lowered for both kinds of annotations."""

    def lower(self, devices: int = 8, shardy: bool = True) -> str:
        """MLIR text, annotated as Shardy or as GSPMD has it, for a mesh of x and y (4 x 2 or 8 x 8)."""
        ...


def _mesh(devices: int) -> Any:
    import jax
    import numpy as np
    from jax.sharding import Mesh

    shape = {8: (4, 2), 64: (8, 8)}[devices]
    return Mesh(np.array(jax.devices("cpu")[:devices]).reshape(shape), ("x", "y"))


def annotating(shardy: bool, lower: Callable[[], Any]) -> Any:
    """What `lower` gives when JAX annotates for this partitioner."""
    import jax

    usual = jax.config.values["jax_use_shardy_partitioner"]
    jax.config.update("jax_use_shardy_partitioner", shardy)
    try:
        return lower()
    finally:
        jax.config.update("jax_use_shardy_partitioner", usual)


@dataclasses.dataclass(frozen=True)
class Example:
    """The training step of an example with a recipe of annotations."""

    module: str
    recipe: str
    sizes: tuple[tuple[str, Any], ...] = ()

    def lower(self, devices: int = 8, shardy: bool = True) -> str:
        example = importlib.import_module(f"gspmd.examples.{self.module}")
        config = example.Config(recipe=self.recipe, **dict(self.sizes))
        lowered = annotating(shardy, lambda: example.lower(config, _mesh(devices)))
        return str(lowered.as_text(debug_info=True))


@dataclasses.dataclass(frozen=True)
class Forward:
    """The loss of the decoder with a recipe of annotations, without its gradient."""

    recipe: str
    sizes: tuple[tuple[str, Any], ...] = ()

    def lower(self, devices: int = 8, shardy: bool = True) -> str:
        import jax
        from jax.sharding import AbstractMesh, NamedSharding

        example = importlib.import_module("gspmd.examples.decoder_lm")
        config, mesh = example.Config(recipe=self.recipe, **dict(self.sizes)), _mesh(devices)
        recipe = example.RECIPES[self.recipe].on(mesh.shape)
        specs = example.specs(config, recipe), recipe.spec("BS")
        shapes = jax.eval_shape(lambda: (example.init(config), example.batch(config)))
        forward = functools.partial(example.loss, config, recipe)
        shardings = jax.tree.map(functools.partial(NamedSharding, mesh), specs)
        auto = (jax.sharding.AxisType.Auto,) * len(mesh.axis_names)
        with jax.sharding.use_abstract_mesh(AbstractMesh(mesh.axis_sizes, mesh.axis_names, axis_types=auto)):
            lowered = annotating(shardy, lambda: jax.jit(forward, in_shardings=shardings).lower(*shapes))
        return str(lowered.as_text(debug_info=True))


@dataclasses.dataclass(frozen=True)
class Loss:
    """A function of annotated arguments, lowered with its gradient in all floats if it is `trained`."""

    function: Callable[..., Any]
    arguments: dict[str, Spec]
    trained: bool = True

    def lower(self, devices: int = 8, shardy: bool = True) -> str:
        import jax
        import jax.numpy as jnp
        from jax.sharding import NamedSharding, PartitionSpec

        mesh = _mesh(devices)
        floats = [i for i, name in enumerate(self.arguments) if not name.startswith("ids")]
        types = [jnp.int32 if name.startswith("ids") else jnp.float32 for name in self.arguments]
        shapes = [jax.ShapeDtypeStruct(s, t) for (s, _), t in zip(self.arguments.values(), types, strict=True)]
        shardings = tuple(NamedSharding(mesh, PartitionSpec(*dims)) for _, dims in self.arguments.values())
        wanted = jax.value_and_grad(self.function, argnums=tuple(floats)) if self.trained else self.function
        with mesh:
            lowered = annotating(shardy, lambda: jax.jit(wanted, in_shardings=shardings).lower(*shapes))
        return str(lowered.as_text(debug_info=True))


# ---- small models ----------------------------------------------------------------------------------


def _split(value: Any, *dims: str | None) -> Any:
    import jax
    from jax.sharding import PartitionSpec

    return jax.lax.with_sharding_constraint(value, PartitionSpec(*dims))


def _normalized(x: Any) -> Any:
    import jax

    return (x - x.mean(-1, keepdims=True)) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5)


def _attended(q: Any, k: Any, v: Any, mask: Any = None) -> Any:
    """Attention of [batch, positions, heads, size]."""
    import jax
    import jax.numpy as jnp

    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / q.shape[-1] ** 0.5
    scores = scores if mask is None else jnp.where(mask, scores, -1e9)
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), v)


def _mixture_of_experts(x: Any, gate: Any, w1: Any, w2: Any) -> Any:
    """Top-1 gating with capacity; groups of tokens over "x" before, experts over "x" after the dispatch."""
    import jax
    import jax.numpy as jnp

    _, tokens, _ = x.shape
    experts, capacity = gate.shape[1], tokens // gate.shape[1] * 2
    probabilities = jax.nn.softmax(jnp.einsum("gsm,me->gse", x, gate))
    chosen = jax.nn.one_hot(probabilities.argmax(-1), experts)
    place = jnp.cumsum(chosen, axis=1) * chosen - 1
    dispatch = jax.nn.one_hot(place.astype(jnp.int32), capacity) * chosen[..., None]
    sent = _split(jnp.einsum("gsec,gsm->egcm", dispatch, x), "x", None, None, None)
    hidden = jax.nn.relu(jnp.einsum("egcm,emh->egch", sent, w1))
    back = _split(jnp.einsum("egch,ehm->egcm", hidden, w2), "x", None, None, None)
    out = jnp.einsum("gsec,egcm->gsm", dispatch * probabilities[..., None], back)
    return (_split(out, "x", None, None) ** 2).mean()


def _convolutional(x: Any, k1: Any, k2: Any, k3: Any, w: Any) -> Any:
    """Three convolutions, one strided, over images with rows over "x" and the batch over "y"."""
    import jax

    for kernel, stride in ((k1, 1), (k2, 2), (k3, 1)):
        x = jax.lax.conv_general_dilated(
            x, kernel, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
        x = jax.nn.relu(x)
    return ((x.mean((1, 2)) @ w) ** 2).mean()


def _vision_transformer(x: Any, patch: Any, qkv: Any, out: Any, w1: Any, w2: Any) -> Any:
    """Patches by a strided convolution, one block; batch over "x", heads and hidden over "y"."""
    import jax
    import jax.numpy as jnp

    x = jax.lax.conv_general_dilated(x, patch, patch.shape[:2], "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    x = x.reshape(x.shape[0], -1, x.shape[-1])
    q, k, v = jnp.einsum("bsm,cmhd->cbshd", _normalized(x), qkv)
    x = x + jnp.einsum("bshd,hdm->bsm", _attended(q, k, v), out)
    x = x + jax.nn.gelu(_normalized(x) @ w1) @ w2
    return (x.mean(1) ** 2).mean()


def _sequence_parallel(x: Any, qkv: Any, out: Any, w1: Any, w2: Any) -> Any:
    """Positions over "y" where values are normalized, heads and hidden over "y" in between."""
    import jax
    import jax.numpy as jnp

    x = _split(x, "x", "y", None)
    q, k, v = jnp.einsum("bsm,cmhd->cbshd", _normalized(x), qkv)
    x = _split(x + jnp.einsum("bshd,hdm->bsm", _attended(q, k, v), out), "x", "y", None)
    x = _split(x + jax.nn.gelu(_normalized(x) @ w1) @ w2, "x", "y", None)
    return (x**2).mean()


def _decode(x: Any, keys: Any, values: Any, q: Any, kv: Any, out: Any, ids_at: Any) -> Any:
    """One token against a cache of [batch, positions, heads, size]."""
    import jax
    import jax.numpy as jnp

    k, v = jnp.einsum("bm,cmhd->cbhd", x, kv)
    keys = jax.lax.dynamic_update_slice(keys, k[:, None], (0, ids_at, 0, 0))
    values = jax.lax.dynamic_update_slice(values, v[:, None], (0, ids_at, 0, 0))
    seen = jnp.arange(keys.shape[1]) <= ids_at
    y = _attended(jnp.einsum("bm,mhd->bhd", x, q)[:, None], keys, values, seen)
    return x + jnp.einsum("bhd,hdm->bm", y[:, 0], out), keys, values


def _accumulated(x: Any, w1: Any, w2: Any) -> Any:
    """The loss over four microbatches, cut from a batch over "x"."""
    import jax
    import jax.numpy as jnp

    parts = x.reshape(x.shape[0] // 4, 4, -1).swapaxes(0, 1)
    return jax.lax.scan(lambda total, part: (total + (jnp.tanh(part @ w1) @ w2).var(), None), 0.0, parts)[0]


def _cross_entropy(x: Any, table: Any, ids: Any) -> Any:
    """Logits over a vocabulary over "y", batch over "x"."""
    import jax
    import jax.numpy as jnp

    scores = jax.nn.log_softmax(jnp.einsum("bsm,vm->bsv", x + table[ids], table))
    return -jnp.take_along_axis(scores, ids[..., None], -1).mean()


def _two_towers(images: Any, k1: Any, wi: Any, ids: Any, table: Any, w1: Any, w2: Any) -> Any:
    """Images in data parallelism, text in tensor parallelism, a contrastive loss between them."""
    import jax
    import jax.numpy as jnp

    left = jax.lax.conv_general_dilated(images, k1, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    left = jax.nn.relu(left).mean((1, 2)) @ wi
    right = (jax.nn.gelu(table[ids] @ w1) @ w2).mean(1)
    scores = _normalized(left) @ _normalized(right).T
    return -jnp.diagonal(jax.nn.log_softmax(scores)).mean()


def _conformer(x: Any, qkv: Any, out: Any, depth: Any, point: Any, w1: Any, w2: Any) -> Any:
    """Attention, a depthwise convolution over time, and a feed-forward layer; batch over "x", features over "y"."""
    import jax
    import jax.numpy as jnp

    q, k, v = jnp.einsum("bsm,cmhd->cbshd", _normalized(x), qkv)
    x = x + jnp.einsum("bshd,hdm->bsm", _attended(q, k, v), out)
    y = jax.lax.conv_general_dilated(
        _normalized(x), depth, (1,), "SAME", dimension_numbers=("NWC", "WIO", "NWC"), feature_group_count=x.shape[-1]
    )
    x = x + jax.nn.silu(y) @ point
    x = x + jax.nn.silu(_normalized(x) @ w1) @ w2
    return (x**2).mean()


def _pipelined(x: Any, w1: Any, w2: Any) -> Any:
    """Stages over "x" as a dimension of weights and of a buffer that shifts by one each step; hidden over "y"."""
    import jax
    import jax.numpy as jnp

    stages, shape = w1.shape[0], x.shape[1:]
    fed = jnp.concatenate([x, jnp.zeros((stages - 1, *shape))])

    def step(buffer: Any, fresh: Any) -> Any:
        buffer = _split(jnp.concatenate([fresh[None], buffer[:-1]]), "x", None, None)
        made = jnp.einsum("pbh,phm->pbm", jax.nn.gelu(jnp.einsum("pbm,pmh->pbh", buffer, w1)), w2)
        made = _split(buffer + made, "x", None, None)
        return made, made[-1]

    _, done = jax.lax.scan(step, _split(jnp.zeros((stages, *shape)), "x", None, None), fed)
    return (done[stages - 1 :] ** 2).mean()


_CACHE: dict[str, Spec] = {"q": ((64, 8, 16), (None, "y", None)), "kv": ((2, 64, 8, 16), (None, None, "y", None))}
_BLOCK: dict[str, Spec] = {
    "qkv": ((3, 64, 8, 8), (None, None, "y", None)),
    "out": ((8, 8, 64), ("y", None, None)),
    "w1": ((64, 256), (None, "y")),
    "w2": ((256, 64), ("y", None)),
}


def _decoding(batch: str | None, positions: str | None) -> Loss:
    cached = ((8, 128, 8, 16), (batch, positions, "y", None))
    arguments: dict[str, Spec] = {"x": ((8, 64), (batch, None)), "keys": cached, "values": cached, **_CACHE}
    return Loss(_decode, {**arguments, "out": ((8, 16, 64), ("y", None, None)), "ids_at": ((), ())}, trained=False)


_HEADS = (("heads", 8), ("head_size", 8))
MODELS: dict[str, Model] = {
    **{f"mlp-{recipe}": Example("mlp", recipe) for recipe in ("dp", "tp", "fsdp")},
    **{f"decoder-{recipe}": Example("decoder_lm", recipe, _HEADS) for recipe in ("2d", "dp", "fsdp", "tp")},
    **{
        f"decoder-{recipe}-scan": Example("decoder_lm", recipe, (*_HEADS, ("scan", True)))
        for recipe in ("2d", "dp", "fsdp", "tp")
    },
    "decoder-2d-forward": Forward("2d", _HEADS),
    "decoder-2d-scan-forward": Forward("2d", (*_HEADS, ("scan", True))),
    "sequence-parallel": Loss(_sequence_parallel, {"x": ((8, 32, 64), ("x", None, None)), **_BLOCK}),
    "mixture-of-experts": Loss(
        _mixture_of_experts,
        {
            "x": ((8, 64, 32), ("x", None, None)),
            "gate": ((32, 8), ()),
            "w1": ((8, 32, 128), ("x", None, "y")),
            "w2": ((8, 128, 32), ("x", "y", None)),
        },
    ),
    "convolutional": Loss(
        _convolutional,
        {
            "x": ((8, 64, 64, 4), ("y", "x", None, None)),
            "k1": ((3, 3, 4, 16), ()),
            "k2": ((3, 3, 16, 32), ()),
            "k3": ((3, 3, 32, 32), ()),
            "w": ((32, 16), ()),
        },
    ),
    "vision-transformer": Loss(
        _vision_transformer, {"x": ((8, 32, 32, 3), ("x", None, None, None)), "patch": ((8, 8, 3, 64), ()), **_BLOCK}
    ),
    "conformer": Loss(
        _conformer,
        {
            "x": ((8, 32, 64), ("x", None, None)),
            "qkv": _BLOCK["qkv"],
            "out": _BLOCK["out"],
            "depth": ((5, 1, 64), (None, None, "y")),
            "point": ((64, 64), ("y", None)),
            "w1": _BLOCK["w1"],
            "w2": _BLOCK["w2"],
        },
    ),
    "pipelined": Loss(
        _pipelined,
        {
            "x": ((16, 8, 64), ()),
            "w1": ((8, 64, 256), ("x", None, "y")),
            "w2": ((8, 256, 64), ("x", "y", None)),
        },
    ),
    "decode-heads": _decoding("x", None),
    "decode-positions": _decoding(None, "x"),
    "accumulated": Loss(
        _accumulated, {"x": ((64, 64), ("x", None)), "w1": ((64, 256), (None, "y")), "w2": ((256, 64), ("y", None))}
    ),
    "cross-entropy": Loss(
        _cross_entropy,
        {"x": ((8, 32, 64), ("x", None, None)), "table": ((512, 64), ("y", None)), "ids": ((8, 32), ("x", None))},
    ),
    "two-towers": Loss(
        _two_towers,
        {
            "images": ((64, 32, 32, 3), (("x", "y"), None, None, None)),
            "k1": ((3, 3, 3, 32), ()),
            "wi": ((32, 64), ()),
            "ids": ((64, 32), ("x", None)),
            "table": ((512, 64), (None, "y")),
            "w1": ((64, 256), (None, "y")),
            "w2": ((256, 64), ("y", None)),
        },
    ),
}
