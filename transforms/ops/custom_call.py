"""custom_call: refused without a rule from the user, except for known targets."""

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
from gspmd.transforms.ops.traits import MOVED, PLAIN, UNKNOWN, Traits


def _batched_rule(info: OpInfo) -> OpShardingRule:
    """All dimensions except the last pass through."""
    shape = info.operands[0].shape
    builder = RuleBuilder([shape], [t.shape for t in info.results])
    for dim, size in enumerate(shape[:-1]):
        builder.factor([dim], [dim] * len(info.results), size)
    return builder.build()


def _matrix_rule(info: OpInfo) -> OpShardingRule:
    """The batch dimensions, before the two matrix dimensions of the first operand, pass through.

    Only evenly: a solver may not terminate on unknown padding.
    """
    operands, results = [t.shape for t in info.operands], [t.shape for t in info.results]
    builder = RuleBuilder(operands, results)
    for dim, size in enumerate(operands[0][:-2] if operands else ()):
        if any(shape[dim : dim + 1] != (size,) for shape in operands + results):
            break
        builder.factor([dim] * len(operands), [dim] * len(results), size, even=True)
    return builder.build()


def _sparse_rule(info: OpInfo) -> OpShardingRule:
    """The columns of the dense matrix, the last operand, pass through; the sparse one is replicated."""
    operands, results = [t.shape for t in info.operands], [t.shape for t in info.results]
    builder = RuleBuilder(operands, results)
    if len(results[0]) == 2:
        builder.factor([*(None,) * (len(operands) - 1), 1], [1], results[0][1])
    return builder.build()


# CHLO operations are calls of these targets in portable artifacts.
_POINTWISE = "acos acosh asin asinh atanh cosh erf sinh tan"
_RULES: dict[str, RuleFunction] = {f"mhlo.{name}": elementwise_rule for name in _POINTWISE.split()}
_RULES["mhlo.topk"] = _batched_rule
# 64-bit elements in two halves, as XLA represents them for TPUs.
_RULES |= dict.fromkeys(("X64Combine", "X64SplitHigh", "X64SplitLow"), elementwise_rule)
# Linear algebra as JAX calls it on TPUs, without batch dimensions in attributes, and XLA's internal forms of it.
_SOLVERS = """Cholesky CompactWyHelper Eigh InvertDiagBlocksLowerTriangular InvertDiagBlocksUpperTriangular
              LuDecomposition ProductOfElementaryHouseholderReflectors Qr QrDecompositionBlock"""
_RULES |= dict.fromkeys(_SOLVERS.split(), _matrix_rule)
# The product of a sparse matrix in compressed rows, as `jax.experimental.sparse` calls it on CPU.
_RULES["cpu_csr_sparse_dense_ffi"] = _sparse_rule
# Calls that only set the memory, the layout or the owner of a value.
_PLACEMENT = "LayoutConstraint MoveToDevice MoveToHost annotate_device_placement xla.megascale.provide_metadata"
_RULES |= dict.fromkeys(_PLACEMENT.split(), elementwise_rule)
# Memory that is not written yet, as `jax.lax.empty` is lowered for TPUs and GPUs.
_RULES["AllocateBuffer"] = elementwise_rule
_OF_FUNCTIONS = op_table([OpDef(CUSTOM_PARTITIONING, refuse_without_functions, replicable=False, traits=UNKNOWN)])
# Calls with more than a rule, by target.
CALLS = joined((OWN_CALLS, APPROXIMATE_CALLS, PARTIAL_CALLS, CALLBACKS, COLLECTIVE_CALLS, _OF_FUNCTIONS))
_RULES |= CALLBACK_RULES | {target: definition.rule for target, definition in CALLS.items()}
# Known calls; a placement has a meaning at its position, so it is not moved.
TRAITS_OF_CALLS: dict[str, Traits] = {
    **dict.fromkeys(_RULES, PLAIN),
    **dict.fromkeys(_PLACEMENT.split(), Traits(pure=False, placement=True)),
    "AllocateBuffer": Traits(allocates=True, flops=MOVED),
    **dict.fromkeys(CALLBACK_RULES, UNKNOWN),
    **{target: definition.traits for target, definition in CALLS.items()},
}
"""The traits of custom calls, by target. Any other call may depend on its device or communicate."""


def custom_call_rule(info: OpInfo) -> OpShardingRule:
    """The rule of the target. Raises Unsupported for unknown targets."""
    target = info.text("call_target_name")
    rule = _RULES.get(target)
    if rule is None or (info.calls_functions and target not in CALLS):
        raise unknown_call(info)
    return rule(info)


OPS = op_table([OpDef(CUSTOM_CALL, custom_call_rule, traits=UNKNOWN)])
