"""The required kind of each attribute that gspmd reads; MLIR allows any, such as `mhlo.memory_kind = 3`."""

from __future__ import annotations

from collections.abc import Mapping

from jaxlib.mlir import ir

from gspmd.dialect.errors import AnnotationError
from gspmd.dialect.own_attributes import AXES, CAUSE, COMBINER, DEVICE_IDS, GLOBAL_TYPE, MESH, NAME, SHARDING
from gspmd.transforms.ir.modules import function_types
from gspmd.transforms.ir.operations import Operation
from gspmd.transforms.ir.ragged_call import group_size, is_ragged
from gspmd.transforms.ir.signature import DONATION, MEMORY_KIND
from gspmd.transforms.parsing.attribute_text import Attributes
from gspmd.transforms.parsing.mlir import located

_INTEGER = "an integer of at most 64 bits, as 8 : i32"
_ON_OPERATIONS = {
    "mhlo.frontend_attributes": (ir.DictAttr, "a dictionary"),
    "mhlo.attributes": (ir.DictAttr, "a dictionary"),
    AXES: (ir.StringAttr, "a string"),
    CAUSE: (ir.StringAttr, "a string"),
    COMBINER: (ir.StringAttr, "a string"),
}
_ON_VALUES = {
    "mhlo.frontend_attributes": (ir.DictAttr, "a dictionary"),
    DONATION[0]: (ir.IntegerAttr, _INTEGER),
    MEMORY_KIND: (ir.StringAttr, "a string"),
    NAME: (ir.StringAttr, "a string"),
    SHARDING: (ir.StringAttr, "a string"),
    GLOBAL_TYPE: (ir.TypeAttr, "a type"),
    DEVICE_IDS: (ir.DenseI64ArrayAttr, "an array of integers"),
}
_ON_MODULES = {
    "mhlo.frontend_attributes": (ir.DictAttr, "a dictionary"),
    "mhlo.num_partitions": (ir.IntegerAttr, _INTEGER),
    "mhlo.num_replicas": (ir.IntegerAttr, _INTEGER),
    MESH: (ir.StringAttr, "a string"),
}


# The most bits of an integer that an error prints.
_MAX_BITS = 64
# The most characters of an attribute that an error prints.
_MAX_SHOWN = 200


def check_operation(op: Operation) -> None:
    """Raises AnnotationError, located, for an attribute of an operation with the wrong kind.

    Also for a ragged all-to-all with inconsistent groups and operands, which MLIR does not verify.
    """
    with located(op):
        _check(op.attributes, _ON_OPERATIONS)
        if is_ragged(op):
            group_size(op)


def check_module(module: Operation) -> None:
    """Check the attributes of the module, which may have no operations outside functions."""
    _check(module.attributes, _ON_MODULES)
    for op in module.regions[0]:
        if op.results:
            with located(op):
                raise AnnotationError("lies outside of all functions")


def check_signature(function: Operation) -> None:
    """Check the attributes of the arguments and results of the entry function."""
    with located(function):
        results = len(function_types(function)[1])
        for name in ("arg_attrs", "res_attrs"):
            for entry in function.attributes.get(name, ()):
                _check(entry, _ON_VALUES)
                if DONATION[0] in entry and not 0 <= entry[DONATION[0]].value < results:
                    raise AnnotationError(f"'{DONATION[0]}' is {entry[DONATION[0]].value}, of {results} results")


def _check(attributes: Attributes, kinds: Mapping[str, tuple[type, str]]) -> None:
    for name, (kind, words) in kinds.items():
        if name in attributes and not (isinstance(attributes[name], kind) and _is_read(attributes[name])):
            raise AnnotationError(f"'{name}' is {_shown(attributes[name])}, expected {words}")


def _is_read(attribute: ir.Attribute) -> bool:
    """Whether an attribute can be printed: it is not a huge integer."""
    if not isinstance(attribute, ir.IntegerAttr) or not isinstance(attribute.type, ir.IntegerType):
        return True
    return bool(attribute.type.width <= _MAX_BITS)


def _shown(attribute: ir.Attribute) -> str:
    text = str(attribute)
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}..."
