"""Running partitioned modules on the devices of a PJRT client.

PJRT receives the per-device program as the body of one `sdy.manual_computation` over all axes, as for `jax.shard_map`
(`manual_program.py`), since XLA does not change such a body. An array with uneven shards is a `jax.Array` with padding
and a shape (`sharded_array.py`). On virtual CPU devices at most two programs are in flight (`in_flight.py`): XLA has as
many threads as devices, each program takes one per device until it ends, and more programs would deadlock.
"""
