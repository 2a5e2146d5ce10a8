"""The Python on pages of the documentation runs as it stands, one page in one process."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
_NEEDED = {"first_steps.md": "jax", "jax.md": "orbax"}


def python_of(page: Path) -> str:
    """The blocks of a page, at the lines where they are."""
    lines, inside = [], False
    for line in page.read_text().splitlines():
        if line.startswith("```"):
            inside = line == "```python"
            lines.append("")
        else:
            lines.append(line if inside else "")
    return "\n".join(lines)


@pytest.mark.parametrize("page", _NEEDED)
def test_a_page_runs(page: str, tmp_path: Path) -> None:
    if importlib.util.find_spec(_NEEDED[page]) is None:
        pytest.skip(f"{_NEEDED[page]} is not installed")
    (tmp_path / "page.py").write_text(python_of(DOCS / page))
    environment = {"JAX_NUM_CPU_DEVICES": "8", "JAX_PLATFORMS": "cpu"}
    rest = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
    command = [sys.executable, str(tmp_path / "page.py")]
    finished = subprocess.run(command, capture_output=True, text=True, check=False, env=rest | environment)
    assert finished.returncode == 0, finished.stderr


@pytest.mark.parametrize("page", ["ecosystem.md", "jax.md", "multihost.md"])
def test_links_lead_somewhere(page: str) -> None:
    for link in re.findall(r"\]\(([^)#]+)", (DOCS / page).read_text()):
        assert "://" in link or (DOCS / link).exists(), link
