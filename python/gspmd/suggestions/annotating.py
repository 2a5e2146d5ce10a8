"""Add an annotation to a given program: the sharding of an argument, or a constraint after an operation."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from jaxlib.mlir import ir

from gspmd.dialect.errors import SourceLocation
from gspmd.dialect.notation import print_argument_sharding, print_constraint, print_dims
from gspmd.dialect.sdy_attrs import write_sharding
from gspmd.dialect.sharding import TensorSharding
from gspmd.explanations.value_names import given_operations
from gspmd.transforms.ir.modules import FUNCTION
from gspmd.transforms.ir.program import CONSTRAINT
from gspmd.transforms.parsing.attribute_text import as_dictionary


@dataclasses.dataclass(frozen=True, slots=True)
class GivenValue:
    """A value of the given program.

    It is result `result` of operation number `operation` of the `given_operations`, or argument `result` of @main if
    `operation` is None. `location` is that of its producer, if known. `name` is the name in `gspmd explain`, `label`
    that of the framework.
    """

    operation: int | None
    result: int
    name: str
    label: str
    location: SourceLocation | None
    shape: tuple[int, ...]

    @property
    def place(self) -> tuple[int, int]:
        """The numbers of its producer and of the result."""
        assert self.operation is not None, "it is not an argument"
        return self.operation, self.result

    @property
    def called(self) -> str:
        """`argument state['w'] (%arg3)`, or `%5`."""
        if self.operation is not None:
            return self.name
        return f"argument {self.label} ({self.name})" if self.label else f"argument {self.name}"


@dataclasses.dataclass(frozen=True, slots=True)
class ValueAnnotation:
    """A sharding for a value of the given program, and for `more` of the same role, as in other layers."""

    value: GivenValue
    sharding: TensorSharding
    more: tuple[GivenValue, ...] = ()

    def __str__(self) -> str:
        more = f" and {len(self.more)} like it" if self.more else ""
        return f"{self.value.called}{more} {print_dims(self.sharding)}"

    @property
    def single(self) -> list[ValueAnnotation]:
        """One annotation for each value."""
        return [ValueAnnotation(value, self.sharding) for value in (self.value, *self.more)]

    @property
    def sdy(self) -> str:
        """The annotation in the program's text: the attribute of an argument, or a constraint on a value."""
        if self.value.operation is None:
            return print_argument_sharding(self.sharding)
        return print_constraint(self.value.name, self.sharding)

    def apply(self, module: ir.Module) -> None:
        """Write it into the module, without other changes."""
        values = (self.value, *self.more)
        if self.value.operation is None:
            with module.context, ir.Location.unknown():
                annotate_arguments(module, {value.result: self.sharding for value in values})
        else:
            constrain_results(module, {value.place: self.sharding for value in values})


def constrain_results(module: ir.Module, shardings: Mapping[tuple[int, int], TensorSharding]) -> None:
    """Constrain results, by the numbers of the `given_operations` and of their results."""
    with module.context, ir.Location.unknown():
        wanted = {number for number, _ in shardings}
        found = {index: op for index, (_, op) in enumerate(given_operations(module)) if index in wanted}
        for (number, result), sharding in shardings.items():
            value = found[number].results[result]
            made = ir.Operation.create(
                CONSTRAINT,
                results=[value.type],
                operands=[value],
                attributes={"sharding": write_sharding(sharding, module.context)},
                loc=found[number].location,
                ip=ir.InsertionPoint.after(found[number]),
            )
            value.replace_all_uses_except(made.result, [made])


def annotate_arguments(module: ir.Module, shardings: Mapping[int, TensorSharding]) -> None:
    """Give arguments of @main, by number, their shardings."""
    function = next(
        view.operation
        for view in module.body.operations
        if view.operation.name == FUNCTION and str(view.operation.attributes["sym_name"].value) == "main"
    )
    with module.context:
        count = len(function.regions[0].blocks[0].arguments)
        given = (
            function.attributes["arg_attrs"] if "arg_attrs" in function.attributes else [ir.DictAttr.get({})] * count
        )
        entries = [as_dictionary(entry) for entry in given]
        for number, sharding in shardings.items():
            entries[number]["sdy.sharding"] = write_sharding(sharding, module.context)
        function.attributes["arg_attrs"] = ir.ArrayAttr.get([ir.DictAttr.get(entry) for entry in entries])
