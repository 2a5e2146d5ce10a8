"""What could not be explained because explaining it failed. That is a defect, and costs a sentence and nothing else."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable
from typing import TypeVar

from gspmd.dialect.diagnostic import Diagnostic, Severity, send

_Found = TypeVar("_Found")


class Unexplained:
    """What failed in one explanation, as sentences: `how %2 got its sharding: KeyError: 3 (derivations.py:287)`."""

    def __init__(self) -> None:
        self.sentences: list[str] = []

    def attempt(self, what: str, explain: Callable[[], _Found], otherwise: _Found) -> _Found:
        """What `explain` returns, or `otherwise` where it fails; the first failure is warned of."""
        try:
            return explain()
        except Exception as error:  # noqa: BLE001 - whatever it is, the rest is explained
            *_, frame = traceback.extract_tb(error.__traceback__)
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            sentence = f"{what}: {reason:.200} ({os.path.basename(frame.filename)}:{frame.lineno})"
            if not self.sentences:
                send(Diagnostic(Severity.WARNING, f"not explained is {sentence}; please report this"))
            self.sentences.append(sentence)
            return otherwise
