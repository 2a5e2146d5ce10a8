"""Random programs: steps that fit each other, on random meshes, with random partial annotations."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

from made_up.choices import CHOICES
from made_up.draft import Draft, Refused
from made_up.program import Program


def made(seed: int, number: int, devices: Sequence[int]) -> Program:
    """The program of a number in the sequence of a seed, on a mesh of one of these numbers of devices."""
    rng = random.Random(f"{seed}/{number}")
    while True:
        draft = Draft(rng, rng.choice(devices))
        try:
            program = _program(draft)
            program.lowered()
        except Exception:  # noqa: BLE001 - JAX refuses, as it does gradients of some operations; another is made up
            continue
        return program


def _program(draft: Draft) -> Program:
    """A whole program."""
    rng = draft.rng
    wanted = int(math.exp(rng.uniform(math.log(5), math.log(40))))
    kinds, weights = zip(*CHOICES, strict=True)
    count = tries = 0
    while count < wanted and tries < 8 * wanted:
        tries += 1
        before = len(draft.steps)
        try:
            rng.choices(kinds, weights)[0](draft)
            count += 1
        except Refused:
            del draft.steps[before:], draft.types[before:]
    if not count:
        return _program(draft)
    used = {o for step in draft.steps for o in step.operands}
    ends = [n for n, step in enumerate(draft.steps) if n not in used and not step.is_argument]
    steps = [draft.annotated(n) for n in range(len(draft.steps))]
    results = tuple((n, draft.dims(draft.types[n].shape, even=True) if rng.random() < 0.5 else None) for n in ends)
    return Program(draft.mesh, tuple(steps), results, trained=rng.random() < 0.15)
