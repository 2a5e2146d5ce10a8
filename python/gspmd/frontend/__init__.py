"""From JAX: functions that are traced, annotated, partitioned and called as `jax.jit` would."""
