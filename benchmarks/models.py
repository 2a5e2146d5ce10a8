"""Models of the corpus, lowered by JAX on eight devices."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

MODELS: dict[str, Callable[[], str]] = {}


def _mesh(shape: tuple[int, ...]) -> Any:
    import jax
    import numpy as np
    from jax.sharding import Mesh

    return Mesh(np.array(jax.devices()[:8]).reshape(shape), ("x", "y", "z")[: len(shape)])


def _example(module: str, recipe: str, shape: tuple[int, ...], **sizes: Any) -> str:
    import importlib

    example = importlib.import_module(f"gspmd.examples.{module}")
    return str(example.lower(example.Config(recipe=recipe, **sizes), _mesh(shape)).as_text(debug_info=True))


for _shape in ((4, 2), (2, 2, 2)):
    _name = "x".join(map(str, _shape))
    for _recipe in ("dp", "tp", "fsdp"):
        MODELS[f"mlp-{_recipe}-{_name}"] = functools.partial(_example, "mlp", _recipe, _shape)
    for _recipe in ("2d", "dp", "fsdp", "tp"):
        for _scan in (False, True):
            MODELS[f"decoder-{_recipe}-{'scan-' if _scan else ''}{_name}"] = functools.partial(
                _example, "decoder_lm", _recipe, _shape, scan=_scan
            )


# ---- small models of other families ---------------------------------------------------------------
#
# Each is a loss and the shapes of its weights and inputs, with the mesh axes of every dimension; what is trained is
# lowered with its gradient.

Spec = tuple[tuple[int, ...], tuple[str | None, ...]]


def _lower(function: Callable[..., Any], arguments: dict[str, Spec], trained: bool = True) -> str:
    """The function, or its value and gradient in all float arguments, lowered with these annotations."""
    import jax
    import jax.numpy as jnp
    from jax.sharding import NamedSharding, PartitionSpec

    mesh = _mesh((4, 2))

    def kind(name: str) -> Any:
        return jnp.int32 if name.startswith("ids") else jnp.float32

    floats = [i for i, name in enumerate(arguments) if not name.startswith("ids")]
    shapes = [jax.ShapeDtypeStruct(shape, kind(name)) for name, (shape, _) in arguments.items()]
    shardings = tuple(NamedSharding(mesh, PartitionSpec(*dims)) for _, dims in arguments.values())
    wanted = jax.value_and_grad(function, argnums=tuple(floats)) if trained else function
    with mesh:
        return str(jax.jit(wanted, in_shardings=shardings).lower(*shapes).as_text(debug_info=True))


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


_CACHE = {"q": ((64, 8, 16), (None, "y", None)), "kv": ((2, 64, 8, 16), (None, None, "y", None))}
_BLOCK: dict[str, Spec] = {
    "qkv": ((3, 64, 8, 8), (None, None, "y", None)),
    "out": ((8, 8, 64), ("y", None, None)),
    "w1": ((64, 256), (None, "y")),
    "w2": ((256, 64), ("y", None)),
}

MODELS.update(
    {
        "mixture-of-experts": lambda: _lower(
            _mixture_of_experts,
            {
                "x": ((8, 64, 32), ("x", None, None)),
                "gate": ((32, 8), ()),
                "w1": ((8, 32, 128), ("x", None, "y")),
                "w2": ((8, 128, 32), ("x", "y", None)),
            },
        ),
        "convolutional": lambda: _lower(
            _convolutional,
            {
                "x": ((8, 64, 64, 4), ("y", "x", None, None)),
                "k1": ((3, 3, 4, 16), ()),
                "k2": ((3, 3, 16, 32), ()),
                "k3": ((3, 3, 32, 32), ()),
                "w": ((32, 16), ()),
            },
        ),
        "vision-transformer": lambda: _lower(
            _vision_transformer,
            {"x": ((8, 32, 32, 3), ("x", None, None, None)), "patch": ((8, 8, 3, 64), ()), **_BLOCK},
        ),
        "sequence-parallel": lambda: _lower(_sequence_parallel, {"x": ((8, 32, 64), ("x", None, None)), **_BLOCK}),
        "decode-heads": lambda: _lower(
            _decode,
            {
                "x": ((8, 64), ("x", None)),
                "keys": ((8, 128, 8, 16), ("x", None, "y", None)),
                "values": ((8, 128, 8, 16), ("x", None, "y", None)),
                **_CACHE,
                "out": ((8, 16, 64), ("y", None, None)),
                "ids_at": ((), ()),
            },
            trained=False,
        ),
        "decode-positions": lambda: _lower(
            _decode,
            {
                "x": ((8, 64), (None, None)),
                "keys": ((8, 128, 8, 16), (None, "x", "y", None)),
                "values": ((8, 128, 8, 16), (None, "x", "y", None)),
                **_CACHE,
                "out": ((8, 16, 64), ("y", None, None)),
                "ids_at": ((), ()),
            },
            trained=False,
        ),
        "accumulated": lambda: _lower(
            _accumulated,
            {"x": ((64, 64), ("x", None)), "w1": ((64, 256), (None, "y")), "w2": ((256, 64), ("y", None))},
        ),
        "cross-entropy": lambda: _lower(
            _cross_entropy,
            {"x": ((8, 32, 64), ("x", None, None)), "table": ((512, 64), ("y", None)), "ids": ((8, 32), ("x", None))},
        ),
        "two-towers": lambda: _lower(
            _two_towers,
            {
                "images": ((16, 32, 32, 3), (("x", "y"), None, None, None)),
                "k1": ((3, 3, 3, 32), ()),
                "wi": ((32, 64), ()),
                "ids": ((16, 32), ("x", None)),
                "table": ((512, 64), (None, "y")),
                "w1": ((64, 256), (None, "y")),
                "w2": ((256, 64), ("y", None)),
            },
        ),
    }
)
