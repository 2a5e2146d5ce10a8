"""`jax.experimental.custom_partitioning`: the functions of a call are asked as JAX asks them, and what they say is read.

Meshes are the user's here, as those functions see them, and the program's on the other side.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax.sharding import NamedSharding, PartitionSpec

from gspmd.dialect.axes import Axes, overlap
from gspmd.dialect.common_mesh import translated
from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import AnnotationError, Unsupported, shown
from gspmd.dialect.hlo_convert import to_tensor_sharding
from gspmd.dialect.hlo_notation import parse_hlo_sharding
from gspmd.dialect.mesh import Mesh
from gspmd.dialect.notation import print_axes, print_dims
from gspmd.dialect.rule import Inference, OpShardingRule, RuleBuilder, Stage
from gspmd.dialect.sharding import TensorSharding
from gspmd.frontend.device_mesh import DeviceMesh
from gspmd.frontend.jax_stages import FunctionsOfCall, hlo_text, lower_for_device, of_user, sharding_for
from gspmd.runtime.dtypes import numpy_dtype
from gspmd.transforms.ir.op_info import OpInfo
from gspmd.transforms.ir.types import TensorType
from gspmd.transforms.ops.custom_rules import CallPartitioner, SplitCall, written_rule

Shardings = tuple[TensorSharding, ...]
Types = Sequence[TensorType]


class JaxPartitioner(CallPartitioner):
    """The functions of a program's calls, by their number; each is asked once for the same shardings."""

    def __init__(self, calls: Sequence[FunctionsOfCall], mesh: DeviceMesh) -> None:
        self._calls = calls
        self._mesh = mesh
        self._jax_mesh = mesh.jax_mesh()
        self._known: dict[Any, Any] = {}

    def rule(self, info: OpInfo) -> OpShardingRule:
        """The user's rule; else what the functions infer, evenly in either case."""
        written = written_rule(info)
        if written is not None:
            return dataclasses.replace(written, even=frozenset(range(len(written.sizes))))
        functions = self._functions(info)
        builder = RuleBuilder(
            [t.shape for t in info.operands], [t.shape for t in info.results], stage=Stage.ELEMENTWISE
        )
        tensors = [*info.operands, *info.results]
        for number, type_ in enumerate(tensors):
            for dim, size in enumerate(type_.shape):
                places = [dim if other == number else None for other in range(len(tensors))]
                builder.factor(places[: len(info.operands)], places[len(info.operands) :], size)
        asked = functions.infer_sharding_from_operands or functions.propagate_user_sharding
        return dataclasses.replace(builder.build(), inference=self._inference(info, functions) if asked else None)

    def _functions(self, info: OpInfo) -> FunctionsOfCall:
        return self._calls[int(info.text("backend_config"))]

    def _inference(self, info: OpInfo, functions: FunctionsOfCall) -> Inference:
        """What operands say of results; where they say nothing, what users of the results may say of these."""
        count = len(info.operands)
        types = tuple(info.results)

        def inferred(shardings: Shardings) -> Shardings:
            operands = _even(shardings[:count], info.operands)
            results = _even(shardings[count:], types)
            infer, take = functions.infer_sharding_from_operands, functions.propagate_user_sharding
            if infer is not None and any(any(s.dim_axes()) for s in operands):
                return shardings[:count] + self._asked(info, functions, infer, operands, results, True)
            if take is not None and any(any(s.dim_axes()) for s in results):
                found = self._asked(info, functions, take, operands, results, False)
                return shardings if found == results else shardings[:count] + found
            return shardings

        return inferred

    def _asked(
        self,
        info: OpInfo,
        functions: FunctionsOfCall,
        ask: Callable[..., Any],
        operands: Shardings,
        results: Shardings,
        by_operands: bool,
    ) -> Shardings:
        """The shardings of the results that one of the user's functions returns."""
        key = (info, by_operands, operands if by_operands else results)
        if key not in self._known:
            what = f"'{_name_of(ask)}' of '{functions.name}'"
            outputs = self._structs(functions, info.results, None if by_operands else results)
            shapes = [jax.tree.unflatten(functions.out_tree, outputs)]
            if by_operands:
                inputs = self._structs(functions, info.operands, operands)
                shapes.insert(0, jax.tree.unflatten(functions.in_tree, inputs))
            with of_user(what):
                said = ask(*functions.static_args, self._jax_mesh, *shapes)
            target = (operands + results)[0].mesh
            found = self._read(what, "result", functions.out_tree, said, info.results, target)
            self._known[key] = _even(found, info.results)
        known: Shardings = self._known[key]
        return known

    def split(self, info: OpInfo, operands: Shardings, results: Shardings, held: Axes) -> SplitCall:
        """Ask `partition`, and lower what it returns for one device."""
        functions = self._functions(info)
        key = (info, operands, results, held)
        if key not in self._known:
            self._known[key] = self._split(info, functions, operands, results, held)
        known: SplitCall = self._known[key]
        return known

    def _split(
        self, info: OpInfo, functions: FunctionsOfCall, operands: Shardings, results: Shardings, held: Axes
    ) -> SplitCall:
        what, target = f"'{_name_of(functions.partition)}' of '{functions.name}'", (operands + results)[0].mesh
        inputs = jax.tree.unflatten(functions.in_tree, self._structs(functions, info.operands, operands))
        outputs = jax.tree.unflatten(functions.out_tree, self._structs(functions, info.results, results))
        with of_user(what):
            said = functions.partition(*functions.static_args, self._jax_mesh, inputs, outputs)
        if not (isinstance(said, tuple | list) and len(said) == 4):
            raise _wrong(f"{what} returned {shown(said)}, expected a mesh, a function, and shardings of results and "
                         "arguments")  # fmt: skip
        mesh, fun, of_results, of_arguments = said
        self._check_mesh(what, mesh)
        made = self._read(what, "result", functions.out_tree, of_results, info.results, target, held)
        taken = self._read(what, "argument", functions.in_tree, of_arguments, info.operands, target, held)
        parts = _parts(info.operands, taken)
        with of_user(f"the function that {what} returned"):
            structs = [jax.ShapeDtypeStruct(part.shape, numpy_dtype(part.element)) for part in parts]
            avals, text = lower_for_device(
                fun, jax.tree.unflatten(functions.in_tree, structs), mesh, functions.platforms
            )
        expected = [(part.shape, numpy_dtype(part.element)) for part in _parts(info.results, made)]
        found = [(tuple(aval.shape), aval.dtype) for aval in avals]
        if found != expected:
            raise _wrong(
                f"the function that {what} returned makes {_described(found)} on each device, "
                f"expected {_described(expected)} by the result shardings beside it"
            )
        return SplitCall(text, taken, made)

    # ---- shardings in and out ----

    def _structs(self, functions: FunctionsOfCall, types: Types, shardings: Shardings | None) -> list[Any]:
        """What stands for whole values, with their shardings over the user's mesh."""
        return [
            jax.ShapeDtypeStruct(
                type_.shape,
                numpy_dtype(type_.element),
                sharding=None if shardings is None else self._of_jax(functions, shardings[index]),
            )
            for index, type_ in enumerate(types)
        ]

    def _of_jax(self, functions: FunctionsOfCall, sharding: TensorSharding) -> jax.sharding.Sharding:
        """As much of a sharding as whole axes of the user's mesh say."""
        own = self._mesh.mesh
        try:
            entries = [_whole(own, axes) for axes in translated(sharding, own).dim_axes()]
        except Unsupported:
            entries = [None] * sharding.rank
        return sharding_for(functions, NamedSharding(self._jax_mesh, PartitionSpec(*entries)), sharding.rank)

    def _read(
        self, what: str, kind: str, tree: Any, said: Any, types: Types, target: Mesh, held: Axes = ()
    ) -> Shardings:
        """The shardings that a function returned, over the program's mesh."""
        try:
            leaves = tree.flatten_up_to(said)
        except ValueError as error:
            raise _wrong(f"{what} returned other {kind} shardings than there are {kind}s: {error}") from None
        return tuple(
            self._read_one(f"{what} returned for {kind} {number}", leaf, type_, target, held)
            for number, (leaf, type_) in enumerate(zip(leaves, types, strict=True))
        )

    def _read_one(self, what: str, said: Any, type_: TensorType, target: Mesh, held: Axes) -> TensorSharding:
        if not isinstance(said, jax.sharding.Sharding):
            raise _wrong(f"{what} {shown(said)}, expected a sharding")
        with of_user(f"{what} {shown(said)}"):
            parsed = parse_hlo_sharding(hlo_text(said, type_.rank))
        try:
            found = translated(to_tensor_sharding(parsed, type_.rank, self._mesh.mesh), target).closed()
        except (AnnotationError, Unsupported) as error:
            raise _wrong(f"{what} {shown(said)}: {error.message}") from None
        if found.unreduced or found.manual or overlap(found.used_axes(), held):
            axes = print_axes(held, target) if held else "none"
            raise _wrong(f"{what} {shown(said)}, which divides no dimension, or an axis that is manual here: {axes}")
        if not found.divides(type_.shape):
            raise _wrong(f"{what} {print_dims(found)}, which does not divide its shape {list(type_.shape)}")
        return found

    def _check_mesh(self, what: str, mesh: Any) -> None:
        """The devices of the mesh that `partition` returned are those that it was given, in their order."""
        own = self._jax_mesh
        if not isinstance(mesh, jax.sharding.Mesh | jax.sharding.AbstractMesh):
            raise _wrong(f"{what} returned {shown(mesh)}, expected the mesh as the first of what it returns")
        devices = [getattr(each, "devices", None) for each in (mesh, own)]
        differ = all(each is not None for each in devices) and [*devices[0].flat] != [*devices[1].flat]
        if mesh.size != own.size or differ:
            raise _wrong(f"{what} returned a mesh {dict(mesh.shape)} of other devices than the program's "
                         f"{dict(own.shape)}")  # fmt: skip


def _wrong(message: str) -> AnnotationError:
    return AnnotationError(message, code=Code.CUSTOM_CALL)


def _name_of(function: Callable[..., Any]) -> str:
    return str(getattr(function, "__name__", type(function).__name__))


def _even(shardings: Shardings, types: Types) -> Shardings:
    return tuple(s.closed().evenly(type_.shape) for s, type_ in zip(shardings, types, strict=True))


def _parts(types: Types, shardings: Shardings) -> list[TensorType]:
    """The types of what each device has."""
    return [t.of_shape(s.local_shape(t.shape)) for t, s in zip(types, shardings, strict=True)]


def _whole(mesh: Mesh, axes: Axes) -> tuple[str, ...] | None:
    """The names of axes up to the first that is a part of one."""
    names = []
    for axis in axes:
        if not mesh.is_full(axis):
            break
        names.append(axis.name)
    return tuple(names) or None


def _described(values: Sequence[tuple[tuple[int, ...], Any]]) -> str:
    return ", ".join(f"{dtype}{list(shape)}" for shape, dtype in values) or "nothing"
