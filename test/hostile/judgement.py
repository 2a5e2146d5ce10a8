"""What is wrong with how a case ended, and the family of faults that it belongs to."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import re
import signal

from hostile.case import Case
from hostile.entries import Outcome

EXIT_VERDICT, EXIT_INTERNAL, EXIT_TIMEOUT, EXIT_INTERRUPTED = 3, 70, 124, 130
_USUAL_CODES = {0, 1, 2}  # as every page of --help says
_WITH_VERDICT = {"check", "verify", "compare", "demo", "cost"}
_LONGEST_LINE = 1500
_ERROR_LINE = re.compile(r"(?:^|: )error: |^\{\"severity\": \"error\"")
_PROGRESS = re.compile(r"^gspmd: [\w ]+ \.\.\.$\n?", re.MULTILINE)
_FRAME = re.compile(r'File "([^"]+)", line \d+,? in (\S+)')
_CHECK = re.compile(r"Check failed: .*|.*terminate called.*|.*what\(\): .*|.*Assertion .*failed.*|LLVM ERROR.*")
_COLOR = re.compile(r"\x1b\[[\d;]*m")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_INTERRUPTED = "an interrupt"


@dataclasses.dataclass(frozen=True, slots=True)
class Fault:
    """`kind` is one of a few words; faults of one `family` have one cause, as far as can be seen from outside."""

    kind: str
    family: str
    told: str


def fault(case: Case, outcome: Outcome) -> Fault | None:
    """The worst fault, if there is one."""
    if "--color=always" in case.words or "FORCE_COLOR" in dict(case.environment):
        outcome = dataclasses.replace(outcome, stderr=_COLOR.sub("", outcome.stderr))
    if dict(case.environment).get("PYTHONIOENCODING") == "utf-16":  # read as UTF-8, in which every second byte is 0
        outcome = dataclasses.replace(outcome, stderr=outcome.stderr.replace("\0", ""))
    return _end(case, outcome) or _internal(case, outcome) or _codes(case, outcome) or _output(case, outcome)


def _end(case: Case, outcome: Outcome) -> Fault | None:
    """Death, hanging and hunger."""
    told = outcome.stderr[-3000:]
    if outcome.ended and outcome.ended != "died":
        kind = "memory" if outcome.ended == "too much memory" else "hang"
        return Fault(kind, f"{kind}: {_place(outcome.stderr)}", told)
    if outcome.status is None:
        return Fault("hang", f"hang: {case.command} {case.terminal}", told)
    if outcome.status < 0:
        name = signal.Signals(-outcome.status).name
        check = _CHECK.search(outcome.stderr)
        where = plain(check[0])[:160] if check else _place(outcome.stderr)
        return Fault("signal", f"{name}: {where or case.terminal or case.command}", told)
    return Fault("signal", f"exit {outcome.status} without a word", told) if outcome.ended == "died" else None


def _internal(case: Case, outcome: Outcome) -> Fault | None:
    """What only a defect gives: tracebacks, internal errors, exceptions of other kinds."""
    text = outcome.stderr
    if outcome.error and not outcome.is_ours:
        where = _place(outcome.frames, last=True)
        return Fault("exception", f"{plain(outcome.error)[:120]} ({where})", f"{outcome.error}\n{outcome.frames}")
    if "Traceback (most recent call last)" in text and "--debug" not in case.words:
        lines = [line for line in text.strip().splitlines() if re.match(r"[\w.]+(?:Error|Exception|Interrupt)\b", line)]
        return Fault(
            "traceback", f"traceback: {plain(lines[-1] if lines else '')[:120]} ({_place(text, last=True)})", text
        )
    if outcome.status == EXIT_INTERNAL or re.search("internal error|please report this|InternalError", text):
        found = re.search(r"[^\n]*(?:internal error|please report this)[^\n]*", text)
        told = re.sub(
            r"^.*?internal error: |; (?:run again|please report).*| \[G\d+\]$", "", found[0] if found else text
        )
        where = f" ({_place(outcome.frames, last=True)})" if outcome.frames else ""
        return Fault("internal", f"{plain(told)[:120]}{where}", f"{text}\n{outcome.frames}")
    return None


def _codes(case: Case, outcome: Outcome) -> Fault | None:
    """Exit codes, and whether what had to be refused was."""
    status, text = outcome.status, outcome.stderr + outcome.stdout
    allowed = _USUAL_CODES | ({EXIT_VERDICT} if case.command in _WITH_VERDICT else set())
    if any(word.startswith("--timeout") for word in case.words):
        allowed = allowed | {EXIT_TIMEOUT}
    if case.terminal.startswith(_INTERRUPTED):
        allowed = allowed | {EXIT_INTERRUPTED}
        if status == EXIT_INTERRUPTED and outcome.seconds > 8:
            return Fault("interrupt", f"{case.command}: late after an interrupt", text)
    if status not in allowed:
        return Fault("code", f"exit code {status} of {case.command}", text)
    is_open = case.command == "verify" and status == EXIT_VERDICT and "NOT KNOWN" in text  # which is no fault
    if case.expects == "success" and status != 0 and not is_open:
        where = case.terminal or case.inlet or case.place or "a good program"
        return Fault("refused", f"refused: {case.command}, {where}: {_message(outcome)}", text)
    if case.expects == "refusal" and status == 0:
        option = next((w for w in case.words if w.startswith("-")), case.inlet or case.command).partition("=")[0]
        value = next((w for w in case.words if "=" in w), "").partition("=")[2]
        return Fault(
            "accepted", f"accepted: {case.command} {option} {plain(value)[:40]}".strip(), f"{case}\n{text[:500]}"
        )
    own_tolerance = any(word.startswith(("--rtol", "--atol")) for word in case.words)  # which may allow for nothing
    failed = re.search(r"^FAIL|\"passed\": false", outcome.stdout, re.MULTILINE)
    if case.command == "check" and failed and not own_tolerance:
        return Fault("wrong result", "check says FAIL", text)
    return None


def _output(case: Case, outcome: Outcome) -> Fault | None:
    """What is printed, and what is left at the output."""
    text = _PROGRESS.sub("", outcome.stderr)
    if outcome.complaint:
        return Fault(
            "output",
            f"output: {case.command}, {case.place or 'no output'}: {plain(outcome.complaint)[:80]}",
            outcome.complaint,
        )
    said = [line for line in text.splitlines() if _ERROR_LINE.search(line)] or (
        [outcome.error] if outcome.error else []
    )
    several = {"--verify-diagnostics", "--split-input-file", "--debug"}
    if outcome.status == 0 and said and not several & {*case.words}:
        return Fault("success", f"success with an error: {plain(said[0])[:120]}", text)
    if outcome.status == 0 or case.terminal not in ("", "a process"):
        return None
    if not text.strip() and not outcome.error and outcome.status != EXIT_VERDICT:
        return Fault("silent", f"silent refusal: {case.command}", f"exit code {outcome.status}")
    if len(said) > 1 and not several & {*case.words} and not any(word.startswith("--strict") for word in case.words):
        return Fault("several", f"several errors: {_message(outcome)}", text)
    longest = max(text.splitlines() or [""], key=len)
    asked = any(word.startswith(("--debug", "--mlir-print-ir")) for word in case.words)
    if not asked and len(longest) > _LONGEST_LINE + sum(map(len, case.words)):
        return Fault("long", f"long message: {_message(outcome)}", longest[:3000])
    if _CONTROLS.search(text):
        return Fault("controls", f"control characters in a message: {_message(outcome)}", repr(text[:2000]))
    if outcome.stdout.strip() and case.command in ("opt", "partition") and "--list-passes" not in case.words:
        return Fault("output", f"output: {case.command} prints and refuses", outcome.stdout[:500])
    return None


# ---- families ----


def plain(text: str) -> str:
    """A message without what differs within a family: places, names, numbers and types."""
    text = re.sub(r"0x[0-9a-f]+", "N", " ".join(text.split()))
    text = re.sub(r"'(?:[^']|\\')*'|\"(?:[^\"]|\\\")*\"|`[^`]*`", "'_'", text)
    text = re.sub(r"\S*\.(?:mlir|mlirbc|artifact|pb|hlo|toml|json|npz)\S*", "F", text)
    return re.sub(r"-?\d[\d.,e+]*", "N", text)


def _message(outcome: Outcome) -> str:
    """The first error without its place."""
    return plain(message(outcome) or re.sub(r"^.*?error: ", "", outcome.error) or outcome.stderr[:200])[:100]


def message(outcome: Outcome) -> str:
    """The error that a refusal tells, for comparing commands; "" where there is none."""
    lines = [line for line in outcome.stderr.splitlines() if _ERROR_LINE.search(line)]
    if not lines:
        return ""
    if lines[0].startswith("{"):
        with contextlib.suppress(json.JSONDecodeError):  # only its beginning is kept where it is very long
            return str(json.loads(lines[0])["message"])
    return " ".join(re.sub(r"^.*?error: | \[G\d+\]$", "", lines[0]).split())


def _place(text: str, last: bool = False) -> str:
    """The innermost functions of ours in a traceback; that of faulthandler has the innermost first."""
    frames = [(file, function) for file, function in _FRAME.findall(text) if "/test/hostile/" not in file]
    if last:
        frames.reverse()
    ours = [f"{file.rpartition('/')[2].removesuffix('.py')}.{function}" for file, function in frames if _is_ours(file)]
    return " < ".join(dict.fromkeys(ours[:3])) or "nowhere"


def _is_ours(file: str) -> bool:
    return (
        any(part in file for part in ("/gspmd/", "/dialect/", "/transforms/", "/tools/"))
        and "site-packages/jax" not in file
    )
