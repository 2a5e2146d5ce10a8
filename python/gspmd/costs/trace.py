"""A timeline in the trace event format of Perfetto and chrome://tracing: microseconds, one thread per lane."""

from __future__ import annotations

import json
from typing import Any

from gspmd.costs.cost_report import CostReport
from gspmd.costs.timeline import Event, Timeline


def trace_text(report: CostReport, timeline: Timeline | None = None) -> str:
    """The trace of a step as JSON text; the timeline is by default the report's own."""
    return json.dumps(_trace(report, timeline or report.timeline))


def _trace(report: CostReport, timeline: Timeline) -> dict[str, Any]:
    threads = {lane: number for number, lane in enumerate(timeline.lanes)}
    name = f"a device of {report.mesh.size}, {report.target}, by the {timeline.source}"
    events: list[dict[str, Any]] = [{"ph": "M", "pid": 0, "name": "process_name", "args": {"name": name}}]
    for lane, number in threads.items():
        about = {"ph": "M", "pid": 0, "tid": number}
        events.append({**about, "name": "thread_name", "args": {"name": lane.replace('"', "")}})
        events.append({**about, "name": "thread_sort_index", "args": {"sort_index": number}})
    events += [_event(report, event, threads[event.lane]) for event in timeline.events]
    return {"displayTimeUnit": "ns", "otherData": {"program": report.program}, "traceEvents": events}


def _event(report: CostReport, event: Event, thread: int) -> dict[str, Any]:
    details: dict[str, Any] = {"location": str(event.location)} if event.location else {}
    if event.collective >= 0:
        collective = report.collectives[event.collective].collective
        details |= {"axes": collective.axes, "bytes": collective.bytes, "cause": collective.cause}
    if event.turns:
        details["busy_us"] = event.busy_s * 1e6
    times = {"ts": event.start_s * 1e6, "dur": event.duration_s * 1e6}
    return {"ph": "X", "pid": 0, "tid": thread, "name": event.name, **times, "args": details}
