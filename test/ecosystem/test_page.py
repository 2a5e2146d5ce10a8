"""The examples of docs/ecosystem.md run as they stand, each after the lines that all share."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

_PAGE = (Path(__file__).parents[2] / "docs" / "ecosystem.md").read_text()
_SHARED, *_EXAMPLES = [section.partition("\n") for section in re.split(r"^## ", _PAGE, flags=re.MULTILINE)]


def _python(text: str) -> str:
    return "".join(re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL))


@pytest.mark.filterwarnings("ignore:Brax System")
@pytest.mark.parametrize(
    ("name", "code"),
    [(name, code) for name, _, text in _EXAMPLES if (code := _python(text))],
    ids=lambda part: part[:12],
)
def test_example(name: str, code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERAS_BACKEND", "jax")  # which keras reads when it is imported
    pytest.importorskip(name.partition(" ")[0], reason=f"{name} does not import")
    if name == "flax nnx":
        pytest.importorskip("optax", reason="optax does not import")
    variables: dict[str, Any] = {}
    exec(_python(_SHARED[2]) + code, variables)
    assert "gspmd" in variables
