"""Flags of XLA for tests: what they compile runs so briefly that optimized machine code does not pay."""

SIMPLE_CODE = (
    "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true --xla_cpu_use_fusion_emitters=false"
)
"""Without the passes of LLVM and without emitters of optimized fusions; XLA's own passes run all the same."""
