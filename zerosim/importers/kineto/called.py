"""Traces that timed no device: the collectives that were called, known by number and size alone."""

from __future__ import annotations

import polars as pl

from zerosim.importers.kineto.events import Events
from zerosim.importers.kineto.facts import from_metadata
from zerosim.importers.kineto.gloo import outermost
from zerosim.importers.kineto.steps import step_at
from zerosim.importers.recording import Window, tabulate
from zerosim.kinds import Kind
from zerosim.trace import Flag


def called_spans(events: Events, windows: tuple[Window, ...]) -> pl.DataFrame:
    """One row (columns ROWS) for each collective call, untimed, and for each outermost aten op.

    Without a device and without Gloo nobody knows what the calls took, and the aten ops are no
    more than host time.
    """
    calls = [(call, facts) for call in events.comms if (facts := from_metadata(call.args))]
    aten = outermost([op for op in events.aten if op.on_main_thread])
    moments = [call.start for call, _ in calls] + [op.start for op in aten]
    none = [None] * len(aten)
    untimed, told = int(Flag.UNTIMED), [facts for _, facts in calls]
    frame = tabulate(
        {
            "stream": ["calls"] * len(calls) + ["host"] * len(aten),
            "kind": [f.kind for f in told] + [Kind.HOST] * len(aten),
            "name": [call.name for call, _ in calls] + [op.name for op in aten],
            "issued_ns": moments,
            "start_ns": moments,
            "end_ns": [call.start for call, _ in calls] + [op.end for op in aten],
            "step": step_at(windows, moments),
            "group": [*(f.group for f in told), *none],
            "elements": [*(f.elements for f in told), *none],
            "nbytes": [*(f.nbytes for f in told), *none],
            "dtype": [*(f.dtype for f in told), *none],
            "flags": [call.flags | untimed for call, _ in calls] + [op.flags for op in aten],
            "sequence": [*(f.sequence for f in told), *none],
        },
    )
    return frame.sort("start_ns", maintain_order=True)
