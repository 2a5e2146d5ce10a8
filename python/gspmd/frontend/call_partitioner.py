"""Calls the functions of `jax.experimental.custom_partitioning` as JAX does, with the user's mesh."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax.extend import source_info_util
from jax.sharding import NamedSharding, PartitionSpec

from gspmd import api, partitioned_calls
from gspmd.dialect.axes import Axes, overlap
from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import AnnotationError, Error, shown
from gspmd.dialect.hlo_convert import to_tensor_sharding
from gspmd.dialect.hlo_notation import parse_hlo_sharding
from gspmd.dialect.mesh import Mesh
from gspmd.dialect.notation import print_dims
from gspmd.dialect.rule import Inference, OpShardingRule, RuleBuilder, Stage
from gspmd.dialect.sharding import TensorSharding
from gspmd.frontend.device_mesh import DeviceMesh
from gspmd.frontend.jax_stages import FunctionsOfCall, hlo_text, lower_for_device, sharding_for
from gspmd.frontend.user_code import user_errors
from gspmd.pass_manager import manager
from gspmd.runtime.dtypes import numpy_dtype
from gspmd.transforms.ir.op_info import OpInfo
from gspmd.transforms.ir.types import TensorType
from gspmd.transforms.ops.custom_rules import CallPartitioner, SplitCall, refuse_without_functions, written_rule

# Operations of a library's functions get the location where the user partitions the program.
for _file in (__file__, api.__file__, manager.__file__, partitioned_calls.__file__):
    source_info_util.register_exclusion(str(_file))
Shardings = tuple[TensorSharding, ...]
Types = Sequence[TensorType]
NUMBER = "backend_config"  # the attribute of a call with the number of its functions


class JaxPartitioner(CallPartitioner):
    """The functions of a program's calls, by number; each is called once for the same shardings."""

    def __init__(self, calls: Sequence[FunctionsOfCall], mesh: DeviceMesh) -> None:
        self.mesh = mesh.mesh
        self._calls = {call.number: call for call in calls}
        self._jax_mesh = mesh.jax_mesh()
        self._known: dict[Any, Any] = {}

    def rule(self, info: OpInfo) -> OpShardingRule:
        """The user's rule, else one by the functions that infer shardings; it splits evenly in either case."""
        written = written_rule(info)
        if written is not None:
            return dataclasses.replace(written, even=frozenset(range(len(written.sizes))))
        functions = self._functions(info)
        infers = functions.infer_sharding_from_operands or functions.propagate_user_sharding
        return dataclasses.replace(_unconnected(info), inference=self._inference(info, functions) if infers else None)

    def _functions(self, info: OpInfo) -> FunctionsOfCall:
        functions = self._calls.get(info.text(NUMBER))
        if functions is None:  # the call is in a program that was lowered before
            refuse_without_functions(info)
        return functions

    def _inference(self, info: OpInfo, functions: FunctionsOfCall) -> Inference:
        """The shardings of results by those of the operands, or if these are not split, by those of the consumers."""
        infer, take = functions.infer_sharding_from_operands, functions.propagate_user_sharding
        count = len(info.operands)

        def inferred(shardings: Shardings) -> Shardings:
            operands, results = shardings[:count], shardings[count:]
            if infer is not None and any(any(s.dim_axes()) for s in operands):
                return operands + self._inferred(info, functions, infer, _closed(operands), None)
            if take is not None and any(any(s.dim_axes()) and any(dim.is_open for dim in s.dims) for s in results):
                return operands + self._inferred(info, functions, take, None, _closed(results))
            return shardings

        return inferred

    def _inferred(
        self,
        info: OpInfo,
        functions: FunctionsOfCall,
        infer: Callable[..., Any],
        operands: Shardings | None,
        results: Shardings | None,
    ) -> Shardings:
        """The shardings of the results by one of the user's functions, which is given those of one side."""
        key = (info.text(NUMBER), info.operands, info.results, operands, results, infer)
        if key not in self._known:
            what = f"'{_name_of(infer)}' of '{functions.name}'"
            shapes = [self._structs(functions, functions.out_tree, info.results, results)]
            if operands is not None:
                shapes.insert(0, self._structs(functions, functions.in_tree, info.operands, operands))
            with user_errors(what):
                returned = infer(*functions.static_args, self._jax_mesh, *shapes)
            self._known[key] = self._read(what, "result", functions.out_tree, returned, info.results)
        known: Shardings = self._known[key]
        return known

    def split(self, info: OpInfo, operands: Shardings, results: Shardings, held: Axes) -> SplitCall:
        """Call `partition`, and lower the per-device function that it returns."""
        key = (info.text(NUMBER), info.operands, info.results, operands, results, held)
        if key not in self._known:
            self._known[key] = self._split(info, self._functions(info), operands, results, held)
        known: SplitCall = self._known[key]
        return known

    def _split(
        self, info: OpInfo, functions: FunctionsOfCall, operands: Shardings, results: Shardings, held: Axes
    ) -> SplitCall:
        what = f"'{_name_of(functions.partition)}' of '{functions.name}'"
        inputs = self._structs(functions, functions.in_tree, info.operands, operands)
        outputs = self._structs(functions, functions.out_tree, info.results, results)
        with user_errors(what):
            returned = functions.partition(*functions.static_args, self._jax_mesh, inputs, outputs)
        if not isinstance(returned, tuple | list) or len(returned) != 4:
            raise _wrong(
                f"{what} returned {shown(returned)}, expected a mesh, a function, and shardings of results and "
                "arguments"
            )
        mesh, fun, of_results, of_arguments = returned
        self._check_mesh(what, mesh)
        made = self._read(what, "result", functions.out_tree, of_results, info.results)
        taken = self._read(what, "argument", functions.in_tree, of_arguments, info.operands)
        _check(what, "result", made, info.results, held)
        _check(what, "argument", taken, info.operands, held)
        inner = self._structs(functions, functions.in_tree, _parts(info.operands, taken), None)
        with user_errors(f"the function that {what} returned"):
            avals, text = lower_for_device(fun, inner, mesh, functions.platforms)
        expected = [(part.shape, numpy_dtype(part.element)) for part in _parts(info.results, made)]
        found = [(tuple(aval.shape), aval.dtype) for aval in avals]
        if found != expected:
            raise _wrong(
                f"the function that {what} returned gives {_described(found)} on each device, "
                f"expected {_described(expected)} by the shardings of results that it returned "
                "(Mismatch in result shapes)"
            )
        return SplitCall(text, taken, made)

    # ---- shardings in and out ----

    def _structs(self, functions: FunctionsOfCall, tree: Any, types: Types, shardings: Shardings | None) -> Any:
        """The shapes of values in the user's pytree, with shardings if these are given."""
        of_jax = [None] * len(types) if shardings is None else [self._of_jax(functions, s) for s in shardings]
        structs = [
            jax.ShapeDtypeStruct(type_.shape, numpy_dtype(type_.element), sharding=sharding)
            for type_, sharding in zip(types, of_jax, strict=True)
        ]
        return jax.tree.unflatten(tree, structs)

    def _of_jax(self, functions: FunctionsOfCall, sharding: TensorSharding) -> jax.sharding.Sharding:
        """A sharding as one of JAX's, up to the first sub-axis of each dimension."""
        spec = PartitionSpec(*(_whole(self.mesh, axes) for axes in sharding.dim_axes()))
        return sharding_for(functions, NamedSharding(self._jax_mesh, spec), sharding.rank)

    def _read(self, what: str, kind: str, tree: Any, returned: Any, types: Types) -> Shardings:
        """The shardings that a function returned in a pytree."""
        try:
            leaves = tree.flatten_up_to(returned)
        except ValueError as error:
            raise _wrong(f"{what} returned other shardings than there are {kind}s: {error}") from None
        return tuple(
            self._read_one(f"{what} returned for {kind} {number}", leaf, type_.rank)
            for number, (leaf, type_) in enumerate(zip(leaves, types, strict=True))
        )

    def _read_one(self, what: str, returned: Any, rank: int) -> TensorSharding:
        if not isinstance(returned, jax.sharding.Sharding):
            raise _wrong(f"{what} {shown(returned)}, expected a sharding")
        with user_errors(f"{what} {shown(returned)}"):
            text = hlo_text(returned, rank)
        try:
            found = to_tensor_sharding(parse_hlo_sharding(text), rank, self.mesh).closed()
        except Error as error:
            raise _wrong(f"{what} {shown(returned)}: {error.message}") from None
        if found.unreduced or found.manual:
            raise _wrong(f"{what} {shown(returned)}, which does more than divide dimensions")
        return found

    def _check_mesh(self, what: str, mesh: Any) -> None:
        """Check that the mesh that `partition` returned has the devices of the given one, in their order."""
        own = self._jax_mesh
        if not isinstance(mesh, jax.sharding.Mesh | jax.sharding.AbstractMesh):
            raise _wrong(f"{what} returned {shown(mesh)}, expected a mesh as its first result")
        devices = [tuple(each.devices.flat) for each in (mesh, own) if isinstance(each, jax.sharding.Mesh)]
        differ = len({*devices}) > 1
        if mesh.size != own.size or differ:
            raise _wrong(
                f"{what} returned a mesh {dict(mesh.shape)}, expected the devices of the one that it was given, "
                f"{dict(own.shape)}"
            )


def _check(what: str, kind: str, shardings: Shardings, types: Types, held: Axes) -> None:
    for number, (sharding, type_) in enumerate(zip(shardings, types, strict=True)):
        problem = f"{what} returned {print_dims(sharding)} for {kind} {number} of shape {list(type_.shape)}"
        if overlap(sharding.used_axes(), held):
            raise _wrong(f"{problem}, with axes that a manual computation around it holds")
        if not sharding.divides(type_.shape):
            raise _wrong(f"{problem}, which would have padding")


def _wrong(message: str) -> AnnotationError:
    return AnnotationError(message, code=Code.CUSTOM_CALL)


def _name_of(function: Callable[..., Any]) -> str:
    return str(getattr(function, "__name__", type(function).__name__))


def _closed(shardings: Shardings) -> Shardings:
    return tuple(sharding.closed() for sharding in shardings)


def _unconnected(info: OpInfo) -> OpShardingRule:
    """A rule in which every dimension is a separate factor, so that nothing propagates."""
    operands, results = [t.shape for t in info.operands], [t.shape for t in info.results]
    builder, shapes = RuleBuilder(operands, results, stage=Stage.ELEMENTWISE), operands + results
    for tensor, shape in enumerate(shapes):
        for dim, size in enumerate(shape):
            places = [dim if other == tensor else None for other in range(len(shapes))]
            builder.factor(places[: len(operands)], places[len(operands) :], size)
    return builder.build()


def _parts(types: Types, shardings: Shardings) -> list[TensorType]:
    """The types of shards."""
    return [t.of_shape(s.local_shape(t.shape)) for t, s in zip(types, shardings, strict=True)]


def _whole(mesh: Mesh, axes: Axes) -> tuple[str, ...] | None:
    """The names of the axes before the first sub-axis."""
    names = []
    for axis in axes:
        if not mesh.is_full(axis):
            break
        names.append(axis.name)
    return tuple(names) or None


def _described(values: Sequence[tuple[tuple[int, ...], Any]]) -> str:
    return ", ".join(f"{dtype}{list(shape)}" for shape, dtype in values) or "nothing"
