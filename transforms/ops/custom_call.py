"""custom_call: refused without a rule by the user, except for targets whose meaning is known."""

from __future__ import annotations

from gspmd.dialect.rule import OpShardingRule, RuleBuilder
from gspmd.transforms.ir.op_info import CUSTOM_CALL, OpInfo
from gspmd.transforms.ops.approximate_top_k import APPROXIMATE_CALLS
from gspmd.transforms.ops.callbacks import CALLS as CALLBACKS
from gspmd.transforms.ops.callbacks import RULES as CALLBACK_RULES
from gspmd.transforms.ops.communication import CALLS as COLLECTIVE_CALLS
from gspmd.transforms.ops.concatenation import OWN_CALLS
from gspmd.transforms.ops.custom_rules import CUSTOM_PARTITIONING, refuse_without_functions
from gspmd.transforms.ops.elementwise import elementwise_rule
from gspmd.transforms.ops.kernels import unknown_call
from gspmd.transforms.ops.op_definition import OpDef, RuleFunction, joined, op_table
from gspmd.transforms.ops.partial_values import PARTIAL_CALLS
from gspmd.transforms.ops.traits import PLAIN, UNKNOWN, Traits


def _batched_rule(info: OpInfo) -> OpShardingRule:
    """All dimensions but the last pass through."""
    shape = info.operands[0].shape
    builder = RuleBuilder([shape], [t.shape for t in info.results])
    for dim, size in enumerate(shape[:-1]):
        builder.factor([dim], [dim] * len(info.results), size)
    return builder.build()


def _matrix_rule(info: OpInfo) -> OpShardingRule:
    """All dimensions before the matrices pass through, which the first operand has two of.

    Evenly: a solver may not end on unknown padding.
    """
    operands, results = [t.shape for t in info.operands], [t.shape for t in info.results]
    builder = RuleBuilder(operands, results)
    for dim, size in enumerate(operands[0][:-2] if operands else ()):
        if any(shape[dim : dim + 1] != (size,) for shape in operands + results):
            break
        builder.factor([dim] * len(operands), [dim] * len(results), size, even=True)
    return builder.build()


def _sparse_rule(info: OpInfo) -> OpShardingRule:
    """Columns of a dense matrix, the last operand, go each alone; rows of the sparse one are on every device."""
    operands, results = [t.shape for t in info.operands], [t.shape for t in info.results]
    builder = RuleBuilder(operands, results)
    if len(results[0]) == 2:
        builder.factor([*(None,) * (len(operands) - 1), 1], [1], results[0][1])
    return builder.build()


# CHLO operations travel as calls of these targets in portable artifacts.
_POINTWISE = "acos acosh asin asinh atanh cosh erf sinh tan"
_RULES: dict[str, RuleFunction] = {f"mhlo.{name}": elementwise_rule for name in _POINTWISE.split()}
_RULES["mhlo.topk"] = _batched_rule
# 64-bit elements in two halves, as XLA makes them for TPUs.
_RULES |= dict.fromkeys(("X64Combine", "X64SplitHigh", "X64SplitLow"), elementwise_rule)
# Linear algebra as JAX calls it on TPU, without a word on batches, and what XLA makes of that.
_SOLVERS = """Cholesky CompactWyHelper Eigh InvertDiagBlocksLowerTriangular InvertDiagBlocksUpperTriangular
              LuDecomposition ProductOfElementaryHouseholderReflectors Qr QrDecompositionBlock"""
_RULES |= dict.fromkeys(_SOLVERS.split(), _matrix_rule)
# The product of a sparse matrix in compressed rows, as `jax.experimental.sparse` calls it on CPU.
_RULES["cpu_csr_sparse_dense_ffi"] = _sparse_rule
# What only says where a value is to be, how it is to be laid out there, or whose it is.
_PLACEMENT = "LayoutConstraint MoveToDevice MoveToHost annotate_device_placement xla.megascale.provide_metadata"
_RULES |= dict.fromkeys(_PLACEMENT.split(), elementwise_rule)
_OF_FUNCTIONS = op_table([OpDef(CUSTOM_PARTITIONING, refuse_without_functions, replicable=False, traits=UNKNOWN)])
# Calls of which more is known than a rule, by target.
CALLS = joined((OWN_CALLS, APPROXIMATE_CALLS, PARTIAL_CALLS, CALLBACKS, COLLECTIVE_CALLS, _OF_FUNCTIONS))
_RULES |= CALLBACK_RULES | {target: definition.rule for target, definition in CALLS.items()}
# What these calls are is known; where a placement stands says something, so that it stays there.
TRAITS_OF_CALLS: dict[str, Traits] = {
    **dict.fromkeys(_RULES, PLAIN),
    **dict.fromkeys(_PLACEMENT.split(), Traits(pure=False, placement=True)),
    **dict.fromkeys(CALLBACK_RULES, UNKNOWN),
    **{target: definition.traits for target, definition in CALLS.items()},
}
"""What is known of custom calls, by target. Any other may ask which device it runs on, or talk to others."""


def custom_call_rule(info: OpInfo) -> OpShardingRule:
    """The target's rule. Raises Unsupported for targets whose meaning is not known."""
    target = info.text("call_target_name")
    rule = _RULES.get(target)
    if rule is None or (info.calls_functions and target not in CALLS):
        raise unknown_call(info)
    return rule(info)


OPS = op_table([OpDef(CUSTOM_CALL, custom_call_rule, traits=UNKNOWN)])
