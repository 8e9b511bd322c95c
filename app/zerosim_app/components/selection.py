"""What is selected on the timeline, in words: a span and its partners, or what an area holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from dash import html
from dash.development.base_component import Component

from zerosim.figures import tables
from zerosim.trace import Trace
from zerosim.units import format_bytes, format_count, format_ns
from zerosim_app.components.tables import Column, table

_MEMBERS: Final = (
    Column("rank", "Rank", "count"),
    Column("arrived_ns", "Arrived", "ns"),
    Column("waited_ns", "Waited for the last", "ns"),
    Column("transfer_ns", "Transfer", "ns"),
    Column("end_ns", "Ended", "ns"),
)
_FOLDED: Final = "The run keeps one rank of each class; it stands for those of the {n_ranks:,} ranks that do the same."
_WINDOW: Final = (
    Column("rank", "Rank", "count"),
    Column("window_ns", "Window", "ns"),
    Column("compute_ns", "Computing", "ns"),
    Column("comm_ns", "Communicating", "ns"),
    Column("exposed_ns", "Exposed", "ns"),
    Column("mem_ns", "Moving memory", "ns"),
)


def span(trace: Trace, index: int) -> list[Component]:
    """A span's facts, and for a collective its partners on all ranks."""
    facts = tables.span_facts(trace, index)
    if facts is None:
        return [html.Div("This span is no longer in the run.", className="zs-empty")]
    head = html.Div(
        [
            html.H3(facts["name"], className="zs-span-name"),
            html.Span(
                f"{facts['kind'].replace('_', '-')}, rank {facts['rank']}", className="zs-note"
            ),
        ],
        className="zs-row",
    )
    parts: list[Component] = [head, _facts(facts)]
    together = tables.members(trace, index)
    n_ranks = trace.meta.world_size
    if n_ranks is not None and trace.meta.classes and len(trace.ranks) < n_ranks:
        parts.append(html.P(_FOLDED.format(n_ranks=n_ranks), className="zs-note"))
    if together:
        parts.append(
            table("sel-members", _MEMBERS, together, label="The same collective on all ranks")
        )
    return parts


def area(trace: Trace, start_ns: int, end_ns: int) -> list[Component]:
    """What the ranks did in a window of time."""
    rows = tables.window(trace, start_ns, end_ns)
    return [
        html.P(
            f"Between {format_ns(start_ns)} and {format_ns(end_ns)}: union times of each rank.",
            className="zs-note",
        ),
        table("sel-window", _WINDOW, rows, label="Busy times in the selected area"),
    ]


def _facts(facts: Mapping[str, Any]) -> html.Div:
    pairs = (
        ("Took", format_ns(facts["took_ns"])),
        ("Waited", format_ns(facts["waited_ns"]) if facts["collective"] is not None else None),
        ("Started", format_ns(facts["start_ns"])),
        ("Issued", format_ns(facts["issued_ns"])),
        ("Layer", facts["unit"]),
        ("Step", facts["step"]),
        ("Stream", facts["stream"].replace("_", "-")),
        ("Elements", format_count(facts["elements"]) if facts["group"] else None),
        ("Full tensor", format_bytes(facts["nbytes"]) if facts["group"] else None),
        ("Sent by this rank", format_bytes(facts["wire_bytes"]) if facts["group"] else None),
        ("Dtype", facts["dtype"]),
        ("Group", facts["group"]),
        ("Bucket", facts["bucket"]),
    )
    return html.Div(
        [
            html.Div([html.Span(label, className="zs-tile-label"), html.B(str(value))])
            for label, value in pairs
            if value is not None
        ],
        className="zs-facts",
    )
