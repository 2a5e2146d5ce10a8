"""Takes the pictures of the documentation from reports: `python docs/take_pictures.py [NAME ..]`.

Every picture is taken twice, for light and for dark pages. Needs Chromium and Pillow, which makes the files small.
"""

from __future__ import annotations

import dataclasses
import io
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import site_reports

FOLDER = Path(__file__).resolve().parent / "pictures"
_COLORS = 96
_OPTIONS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars")
_SCHEMES = {"": 1, "_dark": 0}  # as Chromium numbers them
_BARE = "header, nav#contents, h2 { display: none !important } #frame { display: block !important; padding: 0 }"
_POINT_AT_3 = """
document.querySelector('#mesh [data-device="3"]').dispatchEvent(new MouseEvent("mouseover", { bubbles: true }));
"""


@dataclasses.dataclass(frozen=True)
class Picture:
    """What is to be seen: sections of a page, or cards of its arguments by name and type, after a script has run."""

    size: str
    sections: tuple[str, ...]
    cards: tuple[tuple[str, str], ...] = ()
    script: str = ""
    place: str = ""

    def style(self) -> str:
        shown = ", ".join(f"main > section#{name}" for name in self.sections)
        style = f"main > section {{ display: none !important }} {shown} {{ display: block !important; min-height: 0 }}"
        style += " * { transition: none !important }"
        return style + (_BARE + " main { padding: 12px !important }" if self.cards else "")

    def steps(self) -> str:
        """Keep the cards, in their order."""
        return self.script + "".join(
            f"""
            const card{number} = [...document.querySelectorAll("#arguments .card")].find((card) =>
              card.querySelector("h3").firstChild.textContent === {name!r} && card.textContent.includes({type_!r}));
            card{number}.dataset.kept = "";
            card{number}.parentNode.append(card{number});
            """
            for number, (name, type_) in enumerate(self.cards)
        )


PICTURES = {
    "report_overview": Picture("1280,860", ("overview", "mesh")),
    "report_mesh": Picture("1280,760", ("mesh", "arguments"), script=_POINT_AT_3),
    "report_conflict": Picture("1280,820", ("conflicts",), place="#conflict=CHOSEN"),
    "report_timeline": Picture("1280,800", ("timeline", "memory")),
    "report_trillion": Picture("1280,980", ("overview", "mesh")),
    "report_demo": Picture(
        "1064,250",
        ("arguments",),
        (("mlp_in", "f32[64,256]"), ("mlp_out", "f32[256,64]"), ("key", "f32[64,4,16]"), ("embedding", "f32[128,64]")),
    ),
    "report_experts": Picture(
        "1064,240",
        ("arguments",),
        (("in", "f32[8,64,128]"), ("out", "f32[8,128,64]"), ("in", "f32[64,128]"), ("key", "f32[64,4,16]")),
    ),
    "report_hybrid": Picture(
        "1064,256",
        ("arguments",),
        (("in", "f32[8,64,128]"), ("out", "f32[8,128,64]"), ("in", "f32[64,128]"), ("key", "f32[64,4,16]")),
    ),
    "report_pipeline": Picture(
        "1064,408",
        ("arguments",),
        (
            ("mlp_in", "f32[4,64,256]"),
            ("mlp_out", "f32[4,256,64]"),
            ("key", "f32[4,64,8,8]"),
            ("embedding", "[128,64]"),
        ),
    ),
    "report_spatial": Picture(
        "1064,262",
        ("arguments",),
        (
            ("image", "[2,20,16,16,1]"),
            ("label", "[2,20,16,16]"),
            ("kernel", "[3,3,3,32,32]"),
            ("kernel", "[3,3,3,8,8]"),
        ),
    ),
    "report_dense": Picture(
        "1064,290",
        ("arguments",),
        (
            *(("mlp_in", "[128,16384,131072]"), ("mlp_out", "[128,131072,16384]")),
            *(("key", "[128,16384,256,256]"), ("output", "[128,256,256,16384]")),
        ),
    ),
}


def main(names: list[str]) -> int:
    """The exit code: 2 for a name that is none, 1 without Chromium."""
    unknown = [name for name in names if name not in PICTURES]
    if unknown:
        print(f"take_pictures: error: no picture '{unknown[0]}'; there are {', '.join(PICTURES)}", file=sys.stderr)
        return 2
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if chromium is None:
        print("take_pictures: error: no chromium on PATH", file=sys.stderr)
        return 1
    reports = site_reports.written()
    for name in names or PICTURES:
        text = reports[site_reports.PICTURES[name]].read_text(encoding="utf-8")
        for suffix, scheme in _SCHEMES.items():
            path = FOLDER / f"{name}{suffix}.png"
            path.write_bytes(small(taken(chromium, text, PICTURES[name], scheme)))
            print(f"{path.name}: {path.stat().st_size / 1e3:.0f} kB", flush=True)
    return 0


def taken(chromium: str, text: str, picture: Picture, scheme: int) -> bytes:
    """A PNG of a report, whose policy is taken off for a copy that shows parts of it."""
    text = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", text)
    kept = ".card:not([data-kept]), button.more { display: none !important }" if picture.cards else ""
    text = text.replace("</head>", f"<style>{picture.style()} {kept}</style></head>")
    steps = f"<script>setTimeout(() => {{ {picture.steps()} }}, 1000);</script>"
    place = picture.place.replace("CHOSEN", str(_conflict(text)))
    with tempfile.TemporaryDirectory(prefix="gspmd-") as name:
        page, shot = Path(name, "page.html"), Path(name, "page.png")
        page.write_text(text.replace("</body>", f"{steps}</body>"), encoding="utf-8")
        options = (
            *(f"--user-data-dir={name}/profile", f"--blink-settings=preferredColorScheme={scheme}"),
            *(f"--window-size={picture.size}", "--virtual-time-budget=8000", f"--screenshot={shot}"),
        )
        words = [chromium, *_OPTIONS, *options, f"{page.as_uri()}{place}"]
        subprocess.run(words, check=True, capture_output=True, timeout=120)
        return shot.read_bytes()


def _conflict(text: str) -> int:
    """The first conflict in which an operation leaves partial results."""
    import json

    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert found is not None
    data = json.loads(found[1])
    return next(number for number, each in enumerate(data["conflicts"]) if "leaves partial" in each["reasons"][-1])


def small(png: bytes) -> bytes:
    """The same with a palette."""
    from PIL import Image

    found = io.BytesIO()
    picture = Image.open(io.BytesIO(png)).convert("RGB")
    picture.quantize(_COLORS, dither=Image.Dither.NONE).save(found, "PNG", optimize=True)
    return found.getvalue()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
