"""The JAX front end: functions that are annotated, partitioned and called like those of `jax.jit`.

JAX traces and lowers a function, the partitioned module replaces the lowered one, and JAX compiles, caches and calls it
(`jax_stages.py`, the only module that depends on JAX's internals). So dispatch, callbacks, ordered effects, donation,
the compilation cache and checks for NaN are JAX's. Values that JAX cannot represent are passed in another form
(`jax_values.py`): uneven shards as an array with padding, partial values and other device orders as stacked shards.

`gspmd.annotate` and `gspmd.mesh_split` are one primitive, which is its own gradient and is lowered to a sharding
constraint. JAX lowers the function as for one device, so shards need not be even, and a mesh may be larger than the
machine.
"""
