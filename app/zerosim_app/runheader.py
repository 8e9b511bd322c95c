"""What timeline.json says of a run as a whole, and the colours of both themes."""

from __future__ import annotations

from typing import Any

from zerosim.analysis.steps import last_complete_step
from zerosim.figures.palette import BACKGROUND, GRID, INK, MUTED, OPS, ROLE, RUN, Swatch
from zerosim.kinds import COMMUNICATION, HOST_SIDE, KINDS, Kind
from zerosim.trace import StepWindow, Trace


def run_record(trace: Trace, base_ns: int) -> dict[str, Any]:
    """What is true of the run: its maker, size, steps (ns since `base_ns`), and the step to show first."""
    meta = trace.meta
    return {
        "name": meta.name,
        "source": meta.source,
        "engine": meta.engine,
        "device": meta.device,
        "finished": meta.finished,
        "aligned": meta.clock.aligned,
        "world_size": meta.world_size,
        "n_ranks": len(trace.seen_ranks),
        "n_classes": len(meta.classes),
        "main_step": last_complete_step(trace),
        "steps": _steps(trace, base_ns),
    }


def palette_record() -> dict[str, Any]:
    """Kinds, the role that draws each and its class, and every colour of both themes, JSON-ready."""
    roles = list(OPS)
    return {
        "kinds": list(KINDS),
        "kind_role": [roles.index(ROLE[Kind(kind)]) for kind in KINDS],
        "kind_class": [_class_of(Kind(kind)) for kind in KINDS],
        "roles": [{"key": key, **_colours(swatch)} for key, swatch in OPS.items()],
        "theme": {
            "background": _colours(BACKGROUND),
            "ink": _colours(INK),
            "muted": _colours(MUTED),
            "grid": _colours(GRID),
            "runs": [_colours(swatch) for swatch in RUN],
        },
    }


def _class_of(kind: Kind) -> str:
    if kind in COMMUNICATION:
        return "communication"
    return "host" if kind in HOST_SIDE else "compute"


def _colours(swatch: Swatch) -> dict[str, Any]:
    return {
        "label": swatch.label,
        "light": swatch.light,
        "dark": swatch.dark,
        "hatched": swatch.hatched,
    }


def _steps(trace: Trace, base_ns: int) -> list[list[int]]:
    # [step, first start, last end, how long the slowest rank took]: ranks need not be in step.
    by_step: dict[int, list[StepWindow]] = {}
    for window in trace.meta.steps:
        by_step.setdefault(window.step, []).append(window)
    return [
        [
            step,
            min(w.start_ns for w in windows) - base_ns,
            max(w.end_ns for w in windows) - base_ns,
            max(w.end_ns - w.start_ns for w in windows),
        ]
        for step, windows in sorted(by_step.items())
    ]
