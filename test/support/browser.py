"""A page in Chromium, without a window: what it becomes, and what the browser complains of."""

from __future__ import annotations

import dataclasses
import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
_OPTIONS = (
    *(
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--no-first-run",
        "--hide-scrollbars",
    ),
    *("--enable-logging=stderr", "--log-level=0", "--timeout=20000", "--virtual-time-budget=10000"),
)
_PATIENCE_S = 120


@dataclasses.dataclass(frozen=True, slots=True)
class Shown:
    """The page as it was in the end, and what was written to the console."""

    dom: str
    console: tuple[str, ...]

    @property
    def root(self) -> dict[str, str]:
        """The attributes of the page's root."""
        found = re.search(r"<html([^>]*)>", self.dom)
        assert found is not None, self.dom[:1000]
        return dict(re.findall(r'([\w-]+)="([^"]*)"', found[1]))

    @property
    def ready_ms(self) -> int:
        """When all of the page was there, since it was opened."""
        return int(self.root["data-ready"])


def shown(page: Path, place: str = "", size: str = "1280,900") -> Shown:
    """Open a page at a place in it."""
    assert CHROMIUM is not None
    folder = f"--user-data-dir={page.parent / 'profile'}"
    words = [CHROMIUM, *_OPTIONS, folder, f"--window-size={size}", "--dump-dom", f"{page.as_uri()}{place}"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=_PATIENCE_S, check=False)
    console = re.findall(r"CONSOLE[^\"]*\"(.*)\", source", done.stderr)
    return Shown(done.stdout, tuple(console))


def driven(text: str, script: str, folder: Path) -> Any:
    """What a script returns that runs in a page once that is ready.

    The policy of the page, under which no script runs but its own, is taken off for that.
    """
    policy = re.search(r'<meta http-equiv="Content-Security-Policy"[^>]*>', text)
    assert policy is not None
    driver = f"""<script>
    const wait = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));
    const errors = [];
    addEventListener("error", (event) => errors.push(String(event.message)));
    const driven = async () => {{ {script} }};
    (async () => {{
      while (!document.documentElement.dataset.ready) await wait(20);
      let result;
      try {{ result = await driven(); }} catch (error) {{ result = String(error.stack); }}
      const said = document.createElement("pre");
      said.id = "said";
      said.textContent = JSON.stringify({{ result, errors }});
      document.body.append(said);
    }})();
    </script>"""
    page = folder / "driven.html"
    page.write_text(text.replace(policy[0], "").replace("</body>", f"{driver}</body>"), encoding="utf-8")
    found = re.search(r'<pre id="said">(.*?)</pre>', shown(page).dom, re.DOTALL)
    assert found is not None, "the page never became ready"
    said = json.loads(html.unescape(found[1]))
    assert said["errors"] == []
    return said["result"]
