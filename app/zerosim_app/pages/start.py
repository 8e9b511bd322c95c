"""Start: what this is, four doors, the latest runs, and the two commands for the shell."""

from __future__ import annotations

from typing import Any, Final

import dash
from dash import Dash, dcc, html

from zerosim_app.components.attributes import wild
from zerosim_app.components.cards import heading, page, panel
from zerosim_app.shelf import Entry, shelf
from zerosim_app.urlstate import CompareState, ExploreState, address

LEAD: Final = (
    "zerosim shows what data-parallel training does with memory, compute and the network: "
    "simulated, run for real, or imported from a profiler, on one time axis."
)
COMMANDS: Final = (
    ("zerosim simulate gpt2-1.5b -o runs/my-run", "simulate a step, keep it as a run"),
    ("zerosim trace --nproc 2 lesson-zero3 -o runs/real", "run the same plan on real ranks"),
)
_RECENT: Final = 6


def layout(**_query: Any) -> html.Div:  # noqa: ANN401 - Dash hands in whatever the address says
    """The page."""
    entries = shelf().entries()
    return page(
        html.Div([heading("See every byte of a training step", LEAD)], className="zs-hero"),
        html.Div(_doors(entries), className="zs-doors"),
        html.Div(
            [
                panel("Runs", _recent(entries)),
                panel("From the shell", _commands()),
            ],
            className="zs-two",
        ),
    )


def register(app: Dash) -> None:
    """Put the page at `/`; it has no callbacks."""
    del app
    dash.register_page("zerosim_app.start", path="/", title="zerosim", layout=layout)


def _doors(entries: tuple[Entry, ...]) -> list[dcc.Link]:
    runs = [entry.id for entry in entries if entry.meta is not None]
    example = next((e.id for e in entries if e.is_example and e.meta is not None), None)
    first = "lesson-zero3" if "lesson-zero3" in runs else example or (runs[0] if runs else None)
    return [
        _door(
            "Learn", "/learn/zero3", "zs-door-learn",
            "ZeRO-3 step by step: which GPU holds what, when it is gathered and when it is freed.",
        ),
        _door(
            "Simulate", "/simulate", "zs-door-simulate",
            "Pick DDP, FSDP, DeepSpeed, ColossalAI or Megatron, turn its knobs, and see what they cost.",
        ),
        _door(
            "Open an example", address("/explore", ExploreState(run=first)), "zs-door-explore",
            "A training step on a timeline you can zoom: what overlaps, what waits, what it costs.",
        ),
        _door(
            "Import or compare", "/runs", "zs-door-compare",
            "Drop a profiler trace, tick two runs, and see them on one aligned axis.",
        ),
    ]  # fmt: skip


def _door(title: str, href: str, look: str, text: str) -> dcc.Link:
    picture = html.Div(
        [html.I() for _ in range(9)], className="zs-door-art", **wild({"aria-hidden": "true"})
    )
    return dcc.Link(
        [picture, html.H2(title, className="zs-door-title"), html.P(text)],
        href=href,
        className=f"zs-door {look}",
    )


def _recent(entries: tuple[Entry, ...]) -> html.Div:
    usable = [entry for entry in entries if entry.meta is not None]
    newest = sorted((e for e in usable if not e.is_example), key=lambda e: -_age(e))[:_RECENT]
    newest += [e for e in usable if e.is_example]
    if not newest:
        return html.Div("No runs yet.", className="zs-empty")
    rows = [
        dcc.Link(
            [
                html.Span(entry.id, className="zs-run-name"),
                html.Span(entry.meta.source, className=f"zs-tag zs-{entry.meta.source}"),
                html.Span(_size(entry), className="zs-note"),
            ],
            href=address("/explore", ExploreState(run=entry.id)),
            className="zs-run",
        )
        for entry in newest
        if entry.meta is not None
    ]
    return html.Div([*rows, _compare(newest)])


def _compare(entries: list[Entry]) -> dcc.Link | None:
    ids = {entry.id for entry in entries}
    if {"lesson-zero3", "lesson-zero3-gloo"} <= ids:
        state = CompareState(a="lesson-zero3", b="lesson-zero3-gloo")
        return dcc.Link(
            "Compare the simulated lesson with its real run",
            href=address("/compare", state),
            className="zs-more",
        )
    return None


def _age(entry: Entry) -> float:
    return (entry.stored.path / "run.json").stat().st_mtime


def _size(entry: Entry) -> str:
    size = entry.meta.world_size if entry.meta is not None else None
    kind = " · example" if entry.is_example else ""
    return f"{size} ranks{kind}" if size is not None else f"ranks unknown{kind}"


def _commands() -> html.Dl:
    return html.Dl(
        [
            part
            for command, does in COMMANDS
            for part in (html.Dt(html.Code(command)), html.Dd(does))
        ],
        className="zs-commands",
    )
