"""A run's figures as tiles, and its own account of itself: configuration and data quality."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, Final

from dash import html
from dash.development.base_component import Component

from zerosim.analysis.busy import Busy
from zerosim.analysis.report import assess
from zerosim.analysis.report_text import report_rows
from zerosim.analysis.summary import busiest_whole
from zerosim.errors import ZerosimError
from zerosim.scenario import Scenario, cluster_of, convention_of
from zerosim.toml_text import write_toml
from zerosim.trace import Meta, Trace
from zerosim.units import format_bytes, format_ns
from zerosim_app.components.cards import tile

FULL: Final = 100
"""Per cent of a device's memory."""


def tiles(
    summary: Mapping[str, Any],
    scenario: Mapping[str, Any] | None = None,
    error: float | None = None,
) -> html.Div:
    """Step, compute, communication, exposed, overlap, peak memory, bytes sent, MFU.

    With the run's `scenario`, its byte convention stands beside the memory; `error` is the share by
    which the step may be off (None: unknown).
    """
    n_ranks = summary["world_size"]
    ranks = f"{n_ranks} ranks" if n_ranks is not None else "world size unknown"
    causal = summary.get("mfu_causal")
    within = "" if error is None else f"\u00b1{error:.0%}, "
    return html.Div(
        [
            tile("Step", format_ns(summary["step_ns"]), f"{within}{ranks}"),
            *_busy(summary),
            tile("Peak memory", format_bytes(summary["peak_bytes"]), _memory(summary, scenario)),
            tile("Bytes sent", format_bytes(summary["bytes_sent"]), "one rank, one step"),
            tile("MFU", percent(summary["mfu"]), f"{percent(causal)} causal" if causal else ""),
            *([] if scenario is None else _fits(summary, scenario)),
        ],
        className="zs-tiles",
    )


def _busy(summary: Mapping[str, Any]) -> list[html.Div]:
    """Computing and communicating of the step; of a run without steps, of the whole run."""
    whole = busiest_whole(summary)
    busy = Busy(summary["compute_ns"], summary["comm_ns"], None, summary["exposed_ns"])
    rank, busy = whole or (None, busy)
    times = (
        ("Compute", busy.compute_ns),
        ("Communication", busy.comm_ns),
        ("Exposed", busy.exposed_ns),
    )
    notes = [
        _of_step(ns, summary["step_ns"]) if rank is None else f"whole run, rank {rank}"
        for _, ns in times
    ]
    hidden = summary["overlap"]
    if whole and busy.comm_ns and busy.exposed_ns is not None:
        hidden = 1 - busy.exposed_ns / busy.comm_ns
    return [
        *(tile(name, format_ns(ns), note) for (name, ns), note in zip(times, notes, strict=True)),
        tile("Overlap", percent(hidden), "" if hidden is None else "of it is hidden"),
    ]


def _fits(summary: Mapping[str, Any], scenario: Mapping[str, Any]) -> list[html.Div]:
    """Whether the peak is within the memory of the scenario's device; nothing if that is unknown."""
    peak = summary.get("peak_reserved_bytes") or summary["peak_bytes"]
    try:
        device = cluster_of(Scenario.from_dict(scenario)).device
    except ZerosimError:
        return []
    if peak is None or summary.get("source") != "simulated":
        return []
    share = 100 * peak / device.memory_bytes
    note = f"{share:.1f} % of {format_bytes(device.memory_bytes)}"
    return [tile(f"Fits {device.name}", "yes" if share <= FULL else "no", note)]


def _memory(summary: Mapping[str, Any], scenario: Mapping[str, Any] | None) -> str:
    reserved = summary.get("peak_reserved_bytes")
    held = "allocated, one rank" if reserved is None else f"{format_bytes(reserved)} reserved"
    if scenario is None:
        return held
    try:
        found = convention_of(Scenario.from_dict(scenario))
    except ZerosimError:  # a run of another version may hold what this one does not know
        return held
    parts = f"{found.parameters} + {found.gradients} + {found.optimizer}"
    return f"{held}; {found.name}: {parts} B a parameter"


def percent(share: float | None) -> str:
    """A share as per cent; `unknown` for None."""
    return "unknown" if share is None else f"{100 * share:.1f} %"


def _of_step(ns: int | None, step_ns: int | None) -> str:
    return f"{100 * ns / step_ns:.0f} % of the step" if ns is not None and step_ns else ""


def quality(trace: Trace) -> html.Dl:
    """The report on an imported run: what the files say, and what they do not."""
    told: list[Component] = []
    for name, rows in groupby(report_rows(assess(trace)), key=lambda row: row[0]):
        told += [html.Dt(name.capitalize()), *(html.Dd(text) for _, text in rows)]
    return html.Dl(told, className="zs-pairs")


def about(trace: Trace) -> html.Div:
    """The scenario as TOML, and what was amiss with the input."""
    meta = trace.meta
    return html.Div(
        [
            html.Div(
                [
                    html.H3("Data quality", className="zs-h3"),
                    *(_imported(trace) if meta.source == "imported" else _made(trace)),
                ]
            ),
            html.Div(
                [
                    html.H3("Scenario", className="zs-h3"),
                    html.Pre(write_toml(meta.scenario), className="zs-toml", tabIndex=0)
                    if meta.scenario
                    else html.P("Unknown: this run was imported.", className="zs-note"),
                ]
            ),
        ],
        className="zs-two",
    )


def _imported(trace: Trace) -> list[Component]:
    meta = trace.meta
    made = [("Source", meta.source), ("Device", meta.device), ("Finished", _finished(meta))]
    return [_pairs(made), quality(trace)]


def _made(trace: Trace) -> list[Component]:
    meta = trace.meta
    made = [
        ("Source", meta.source),
        ("Engine", meta.engine),
        ("Device", meta.device),
        ("Finished", _finished(meta)),
        ("Clocks", _clock(trace)),
        *((name.replace("_", " "), f"{value:,}") for name, value in _counts(trace)),
    ]
    warnings = [html.Li(w) for w in meta.quality.warnings]
    return [
        _pairs(made),
        html.Ul(warnings) if warnings else html.P("No warnings.", className="zs-note"),
    ]


def _finished(meta: Meta) -> str:
    return "yes" if meta.finished else "no: some rank stopped early"


def _pairs(pairs: Sequence[tuple[str, str | None]]) -> html.Dl:
    parts = ((html.Dt(name.capitalize()), html.Dd(value or "unknown")) for name, value in pairs)
    return html.Dl([part for pair in parts for part in pair], className="zs-pairs")


def _clock(trace: Trace) -> str:
    clock = trace.meta.clock
    if not clock.aligned:
        return "not aligned: do not compare ranks"
    return f"aligned, error {format_ns(clock.error_ns)}"


def _counts(trace: Trace) -> list[tuple[str, int]]:
    quality = trace.meta.quality
    names = ("events", "repaired", "skipped", "lost", "before_window", "unsized")
    return [(name, getattr(quality, name)) for name in names]
