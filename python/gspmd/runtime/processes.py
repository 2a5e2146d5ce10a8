"""Programs over devices of several processes: check that all compile the same one, and wait with a time limit."""

from __future__ import annotations

import hashlib
import itertools
import json
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax
from jax._src import distributed  # the store of jax.distributed, which has no public API
from jax.errors import JaxRuntimeError

from gspmd.dialect.error_codes import Code
from gspmd.dialect.errors import ExecutionError
from gspmd.dialect.notation import print_mesh, print_sharding
from gspmd.runtime.arguments import describe
from gspmd.transforms.ir.signature import Signature

TIMEOUT_S = 300.0
_HINT = "all processes must compile the same functions in the same order, for arguments of equal shapes and shardings"
_LONGEST_PAUSE_S = 0.02
# The number of programs compiled for the devices of these processes, equal in all of them.
_programs: dict[tuple[int, ...], Iterator[int]] = defaultdict(itertools.count)
# The number of runs after which processes exchange their results, equal in all of them.
_runs: dict[tuple[int, ...], Iterator[int]] = defaultdict(itertools.count)


def agree(text: str, name: str, signature: Signature, devices: Sequence[Any], timeout_s: float) -> None:
    """Check that all processes with one of `devices` are about to compile the program `text` for them.

    Errors: ExecutionError, in every process, if they are not, or if one does not come within `timeout_s` seconds.
    """
    processes = tuple(sorted({device.process_index for device in devices}))
    client, own = distributed.global_state.client, devices[0].client.process_index()
    if len(processes) == 1 or client is None:
        return
    if own not in processes:
        raise ExecutionError(f"none of the {len(devices)} devices belongs to process {own}", code=Code.TOO_FEW_DEVICES)
    directory = f"gspmd/{'-'.join(map(str, processes))}/{next(_programs[processes])}"
    client.key_value_set(f"{directory}/{own}", json.dumps(_description(text, name, signature, devices)))
    try:
        client.wait_at_barrier(directory, int(timeout_s * 1000), list(processes))
        late = None
    except JaxRuntimeError as error:
        late = error
    told = {int(key.rpartition("/")[2]): json.loads(value) for key, value in client.key_value_dir_get(directory)}
    _compare(told, own)
    if late is not None:
        missing = ", ".join(str(process) for process in processes if process not in told)
        who = (
            f"process {missing} did not reach its compilation"
            if missing
            else "not all processes reached its compilation"
        )
        raise ExecutionError(f"'{name}': {who} within {timeout_s:g} s; {str(late).splitlines()[0]:.200}", hint=_HINT)


def exchange(told: str, devices: Sequence[Any], timeout_s: float = TIMEOUT_S) -> dict[int, str]:
    """Exchange a message after a run among the processes with one of `devices`, which all call this in one order.

    Errors: ExecutionError, where one does not come within `timeout_s` seconds.
    """
    processes = tuple(sorted({device.process_index for device in devices}))
    client, own = distributed.global_state.client, devices[0].client.process_index()
    if len(processes) == 1 or client is None:
        return {own: told}
    number = next(_runs[processes])
    last, directory = (f"gspmd/{'-'.join(map(str, processes))}/run{n}" for n in (number - 1, number))
    client.key_value_set(f"{directory}/{own}", told)
    try:
        client.wait_at_barrier(directory, int(timeout_s * 1000), list(processes))
    except JaxRuntimeError as error:
        raise ExecutionError(
            f"not all processes ended a run within {timeout_s:g} s; {str(error).splitlines()[0]:.200}", hint=_HINT
        ) from None
    if number:  # all processes have read it by now
        client.key_value_delete(f"{last}/{own}")
    return {int(key.rpartition("/")[2]): value for key, value in client.key_value_dir_get(directory)}


def _description(text: str, name: str, signature: Signature, devices: Sequence[Any]) -> dict[str, str]:
    """The properties that must be equal in all processes, the most informative first."""
    values = {
        f"argument {i}": f"{describe(i, value).partition(': ')[2]} {print_sharding(value.sharding)}"
        for i, value in enumerate(signature.inputs[:100])
    }
    return {
        "the function": name,
        "the mesh": print_mesh(signature.mesh),
        "the devices": hashlib.sha256(str([device.id for device in devices]).encode()).hexdigest()[:12],
        "the version of jax": jax.__version__,
        "the number of arguments": str(len(signature.inputs)),
        **values,
        "the program": hashlib.sha256(text.encode()).hexdigest()[:12],
    }


def _compare(told: Mapping[int, Mapping[str, str]], own: int) -> None:
    mine = told[own]
    for process, other in sorted(told.items()):
        for what in mine:
            if mine[what] != other.get(what):
                raise ExecutionError(
                    f"the processes compile different programs: {what} is {mine[what]} in process {own}, "
                    f"but {other.get(what)} in process {process}",
                    hint=_HINT,
                )


def wait(results: Any, timeout_s: float = TIMEOUT_S) -> Any:
    """Wait until the devices have computed every array of a pytree, and return it.

    A collective waits for all processes, and without end if one of them has died, stopped, or runs something else.

    Errors: ExecutionError when the devices fail, or the arrays are not there after `timeout_s` seconds.
    """
    end, pause = time.monotonic() + timeout_s, 1e-4
    for array in _arrays(results):
        try:
            while not array.is_ready():
                if time.monotonic() > end:
                    raise ExecutionError(
                        f"results are not available after {timeout_s:g} s; a process may have died or diverged",
                        hint="see the output of the other processes",
                    )
                time.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE_S)
            array.block_until_ready()
        except JaxRuntimeError as error:
            raise ExecutionError(f"the devices failed: {str(error).splitlines()[0]}") from None
    return results


def _arrays(results: Any) -> Iterator[Any]:
    for leaf in jax.tree.leaves(results):
        if isinstance(leaf, jax.Array):
            yield jax.random.key_data(leaf) if jax.numpy.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf
