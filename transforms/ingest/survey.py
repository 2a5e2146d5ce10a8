"""One walk over the functions that @main reaches: it finds all operations that later steps of ingest read.

Modules have tens of thousands of operations, of which few concern ingest. The walk takes about 2 us per operation,
groups them by name, and is repeated only after steps that rewrite the module.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Iterator

from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import AnnotationError, Unsupported
from gspmd.transforms.ingest.reversals import REVERSE
from gspmd.transforms.ir.collective_groups import COLLECTIVES
from gspmd.transforms.ir.modules import FUNCTION, symbol
from gspmd.transforms.ir.op_info import CUSTOM_CALL
from gspmd.transforms.ir.operations import Operation
from gspmd.transforms.ir.program import CALLS
from gspmd.transforms.ir.ragged_call import is_ragged
from gspmd.transforms.ir.types import TensorType
from gspmd.transforms.parsing.mlir import located

# Attributes that contain annotations. `mhlo.attributes` are those of operations that were once in MHLO.
CARRIERS = ("sdy.sharding", "mhlo.sharding", "mhlo.frontend_attributes", "mhlo.attributes")

_SOUGHT = {
    *CALLS,
    "chlo.constant",
    "stablehlo.case",
    CUSTOM_CALL,
    "stablehlo.get_tuple_element",
    "stablehlo.partition_id",
    "stablehlo.replica_id",
    "stablehlo.set_dimension_size",
    "stablehlo.tuple",
}
_LOOKUPS = {"stablehlo.gather", "stablehlo.scatter"}
_REARRANGES = {"stablehlo.concatenate", "stablehlo.dynamic_slice", "stablehlo.pad", REVERSE}
DEPRECATED = {
    f"stablehlo.{name}"
    for name in (
        "broadcast",
        "create_token",
        "cross-replica-sum",
        "dot",
        "einsum",
        "real_dynamic_slice",
        "torch_index_select",
    )
}


@dataclasses.dataclass(slots=True)
class Survey:
    """The operations found by a walk.

    `functions` are in an order of callees before their callers, so that @main is the last; `calls` are those in
    each of them, `sizes` the numbers of operations in them; `found` lists the operations that ingest knows, by name;
    `annotated` are the others, and collectives, that carry one of `CARRIERS`; `lookups` are gathers and scatters;
    `rearranges` has the names of the shifts and reversals that there are; `types` are all types of results and of
    functions' arguments.
    """

    functions: list[Operation] = dataclasses.field(default_factory=list)
    calls: list[list[Operation]] = dataclasses.field(default_factory=list)
    sizes: list[int] = dataclasses.field(default_factory=list)
    annotated: list[Operation] = dataclasses.field(default_factory=list)
    found: dict[str, list[Operation]] = dataclasses.field(default_factory=dict)
    lookups: list[Operation] = dataclasses.field(default_factory=list)
    types: set[TensorType] = dataclasses.field(default_factory=set)
    rearranges: set[str] = dataclasses.field(default_factory=set)

    @property
    def main(self) -> Operation:
        return self.functions[-1]

    def all(self, *names: str) -> list[Operation]:
        """The operations with these names."""
        return [op for name in names for op in self.found.get(name, ())]

    def collectives(self) -> list[Operation]:
        """The collectives."""
        return [*self.all(*COLLECTIVES), *filter(is_ragged, self.all(CUSTOM_CALL))]

    def dialect(self, name: str) -> list[Operation]:
        """The operations of a dialect."""
        return self.all(*(found for found in self.found if found.startswith(f"{name}.")))

    def known(self) -> Iterator[Operation]:
        """All operations that were found by name."""
        for ops in self.found.values():
            yield from ops

    def every(self) -> Iterator[Operation]:
        """All operations that may have annotations."""
        yield from self.annotated
        yield from self.known()


def functions_of(module: Operation) -> dict[str, Operation]:
    """The functions of the module by symbol name, in order."""
    found = {}
    for op in module.regions[0]:
        if op.name == FUNCTION:
            found[symbol(op)] = op
        elif op.name == "builtin.module":
            with located(op):
                raise Unsupported(
                    "a module inside the module", hint="give its content as the only module", code=Code.CALLS
                )
    return found


def find_main(functions: dict[str, Operation]) -> str:
    """The entry: the function @main, or the only public function."""
    public = [name for name, op in functions.items() if not is_private(op)]
    if "main" in functions:
        name = "main"
    elif len(public) == 1:
        name = public[0]
    else:
        names = ", ".join(f"'@{name}'" for name in public) or "none"
        raise AnnotationError(
            f"no function '@main'; the public functions are {names}", hint="call one of them '@main'", code=Code.NO_MAIN
        )
    op = functions[name]
    if op.regions[0].last is None:
        with located(op):
            raise Unsupported(
                f"function '@{name}' has no body of one block", hint="give its definition", code=Code.CALLS
            )
    return name


def is_private(function: Operation) -> bool:
    attributes = function.attributes
    return "sym_visibility" in attributes and attributes["sym_visibility"].value == "private"


def callee_of(call: Operation) -> str:
    """The function that a `func.call` or `stablehlo.composite` names."""
    attributes = call.attributes
    return str(attributes["callee" if call.name == "func.call" else "decomposition"].value)


def survey(module: Operation) -> Survey:
    """Walk over @main and its callees. Raises Unsupported (located) for recursion and missing bodies."""
    result = Survey()
    functions = functions_of(module)
    known: set[str] = set()
    # The call stack: the calls of each function, those not yet visited, and the sizes.
    active: dict[str, tuple[list[Operation], Iterator[Operation], int]] = {}

    def enter(name: str) -> None:
        op, calls = functions[name], list[Operation]()
        known.add(name)
        result.types.update(argument.type for argument in op.regions[0].arguments)
        size = _walk(op, result, calls)
        active[name] = calls, iter(calls), size

    enter(find_main(functions))
    while active:
        name, (calls, left, size) = next(reversed(active.items()))
        for call in left:
            _check_call(call, functions, active)
            if callee_of(call) not in known:
                enter(callee_of(call))
                break
        else:
            del active[name]
            result.functions.append(functions[name])
            result.calls.append(calls)
            result.sizes.append(size)
    return result


def _check_call(call: Operation, functions: dict[str, Operation], active: Iterable[str]) -> None:
    callee = callee_of(call)
    with located(call):
        if callee in active:
            chain = " -> ".join(f"@{name}" for name in [*itertools.dropwhile(lambda n: n != callee, active), callee])
            raise Unsupported(
                f"recursive call {chain}", hint="write the recursion as a 'stablehlo.while'", code=Code.CALLS
            )
        if callee not in functions or functions[callee].regions[0].last is None:
            raise Unsupported(
                f"function '@{callee}' has no body of one block",
                hint="give its definition, or use a custom call",
                code=Code.CALLS,
            )


def _walk(op: Operation, result: Survey, calls: list[Operation]) -> int:
    """Group the operations inside `op` by name and count them; this is the hot loop of ingest."""
    found, annotated, types, size = result.found, result.annotated, result.types, 0
    for inner in op.walk():
        size += 1
        name, attributes = inner.name, inner.attributes
        if name in _SOUGHT or name in DEPRECATED or name.startswith(("sdy.", "mhlo.")):
            found.setdefault(name, []).append(inner)
            if name in CALLS:
                calls.append(inner)
        else:
            if name in COLLECTIVES:
                found.setdefault(name, []).append(inner)
            elif name in _LOOKUPS:
                result.lookups.append(inner)
            elif name in _REARRANGES:
                result.rearranges.add(name)
            if (
                "mhlo.sharding" in attributes
                or "sdy.sharding" in attributes
                or "mhlo.frontend_attributes" in attributes
            ):
                annotated.append(inner)
        for value in inner.results:
            types.add(value.type)
    return size


def value_types(survey: Survey) -> Iterator[tuple[Operation, TensorType]]:
    """The types of all values, each with its operation or function, those of @main first."""
    for function in survey.functions[::-1]:
        for argument in function.regions[0].arguments:
            yield function, argument.type
        for op in function.walk():
            for value in op.results:
                yield op, value.type
