"""What a person may overlook in a summary: a step that warms up, and why nothing overlaps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Final

from zerosim.analysis.reductions import reductions
from zerosim.analysis.steps import last_complete_step
from zerosim.schedules import SCHEDULES
from zerosim.schedules.knobs import knobs
from zerosim.trace import Trace

MAX_OVERLAP: Final = 0.05
"""Up to this share, nothing overlaps as far as people are concerned."""


def notes(trace: Trace, summary: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Lines for people; none if there is nothing to say."""
    step, steady = last_complete_step(trace), trace.meta.steady_from or 1
    if step is not None and step < steady:
        return [
            (
                "note",
                f"step {step} warms up, later ones may differ: see one with --set steps={steady}",
            )
        ]
    hidden, world = summary["overlap"], summary["world_size"] or 1
    if world == 1 or hidden is None or hidden > MAX_OVERLAP:
        return []
    return [("note", f"{_reason(trace)}{_deciding(trace)}")]


def _reason(trace: Trace) -> str:
    found = reductions(trace)
    if found.n and found.n == found.n_late:
        return "hardly anything overlaps: gradients are reduced once the backward is over"
    return "hardly anything overlaps: computing and communication take turns"


def _deciding(trace: Trace) -> str:
    """The knobs of the run's schedule that decide what computing hides, with their values."""
    section = dict((trace.meta.scenario or {}).get("schedule", {}))
    name = section.pop("name", None)
    if name not in SCHEDULES:
        return ""
    schedule = SCHEDULES[name]
    values = asdict(schedule.options(**section))
    asked = [
        f"{k.name}={_shown(values[k.name], k.unit)}" for k in knobs(schedule.options) if k.hides
    ]
    return f"; it depends on {', '.join(asked)}" if asked else ""


def _shown(value: object, unit: str) -> str:
    if value is None or isinstance(value, bool):
        return str(value).lower()
    number = f"{value:,}" if isinstance(value, int) else str(value)
    return f"{number} {unit}".rstrip()
