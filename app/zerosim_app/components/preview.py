"""What comes of a scenario: its figures, its order, and one view of its step, memory, balance or buckets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from dash import dcc, html
from dash.development.base_component import Component

from zerosim.analysis.accounting import account
from zerosim.analysis.buckets import bucket_fills
from zerosim.analysis.steps import complete_steps, only_step, steady_step
from zerosim.analysis.summary import peak_bytes, summarize
from zerosim.errors import ScenarioError
from zerosim.figures import balance, buckets, memory
from zerosim.figures.lanes import lanes
from zerosim.figures.palette import Theme
from zerosim.figures.waterfall import waterfall
from zerosim.scenario import Scenario, plan_of, run
from zerosim.trace import Trace
from zerosim.units import format_bytes
from zerosim.validation.band import ErrorBand, error_band, says
from zerosim_app.components.cards import drawing
from zerosim_app.components.facts import tiles
from zerosim_app.urlstate import Shown

MAX_OPS: Final = 20_000
"""So many ops a rank are simulated and drawn in about a second, while someone turns a knob."""
_HEAD, _TAIL = 420, 200
"""Characters of a long order that are shown: the forward, and how the step ends."""
VIEWS: Final = {
    "step": "Step",
    "memory": "Memory",
    "balance": "Load balance",
    "buckets": "Buckets",
}
SHOWN: Final[dict[Shown, str]] = {
    "steady": "Steady step",
    "first": "First step",
    "all": "All steps",
}


def preview(
    scenario: Scenario,
    view: str,
    theme: Theme,
    shown: Shown = "steady",
    longer: Callable[[int], str] | None = None,
) -> list[Component]:
    """Simulate, and show; `longer`: where the same scenario with more steps is.

    Raises ScenarioError for a scenario that takes longer than a moment.
    """
    plan = plan_of(scenario)
    if len(plan.ops) > MAX_OPS:
        raise ScenarioError(
            f"the scenario has {len(plan.ops):,} ops a rank, over {MAX_OPS:,}: keep it as a run, "
            "or lower layers, micro_batches or steps"
        )
    trace = run(scenario)
    part = _part(trace, shown)
    summary = summarize(part)
    peaks = {
        "peak_bytes": peak_bytes(trace),
        "peak_reserved_bytes": peak_bytes(trace, "memory.reserved"),
    }
    band = error_band(scenario) if shown != "all" else None
    return [
        tiles(summary | peaks, scenario.to_dict(), None if band is None else band.median),
        *([] if shown == "all" else [_band(band)]),
        _order(summary["order"]),
        _which(trace, part, longer),
        *_VIEWS.get(view, _step)(part, theme),
    ]


def _band(band: ErrorBand | None) -> Component:
    """How far off the step may be, and the page of the runs that say it."""
    link = dcc.Link("All measured runs", href="/accuracy")
    return html.P(
        [html.Span("Error band ", className="zs-note"), f"{says(band)}. ", link],
        className="zs-which",
        id="sim-band",
    )


def _part(trace: Trace, shown: Shown) -> Trace:
    """The steps of a run that are shown."""
    step = steady_step(trace) if shown == "steady" else min(complete_steps(trace), default=None)
    return trace if shown == "all" or step is None else only_step(trace, step)


def _order(order: str | None) -> Component:
    text = order or "unknown"
    if len(text) > _HEAD + _TAIL:
        head = text[:_HEAD].rsplit(" ", 1)[0]
        tail = text[-_TAIL:].split(" ", 1)[-1]
        left_out = len(text.split()) - len(head.split()) - len(tail.split())
        text = f"{head} … {left_out} ops … {tail}"
    return html.P(
        [html.Span("Order of a rank ", className="zs-note"), html.Code(text)], className="zs-order"
    )


def _which(trace: Trace, part: Trace, longer: Callable[[int], str] | None) -> Component:
    """Which step is shown, whether it is a warm-up, and how to see the steady one."""
    steps = sorted({window.step for window in trace.meta.steps})
    mine = sorted({window.step for window in part.meta.steps})
    steady = trace.meta.steady_from or 1
    told = f"Shown is step {mine[0]} of {len(steps)}" if len(mine) == 1 else "Shown are all steps"
    if steady not in steps:
        link = dcc.Link(f"Simulate {steady} steps", href=longer(steady)) if longer else None
        text = f"{told}, a warm-up: this engine does something else from step {steady} on. "
        return html.P([text, link], className="zs-which")
    if len(mine) == 1 and mine[0] < steady:
        return html.P(f"{told}, a warm-up: later steps differ.", className="zs-which")
    rest = ""
    if steady > 1:
        rest = ", a steady one; the first step warms the engine up and differs"
    return html.P(f"{told}{rest if len(mine) == 1 else ''}.", className="zs-which")


def _step(trace: Trace, theme: Theme) -> list[Component]:
    return [
        drawing("sim-fig-lanes", lanes(trace, trace.ranks[0], theme)),
        drawing("sim-fig-step", waterfall([("one step", account(trace))], theme)),
    ]


def _memory(trace: Trace, theme: Theme) -> list[Component]:
    allocated, in_use = peak_bytes(trace), peak_bytes(trace, "memory.in_use")
    shown: list[Component] = [
        drawing("sim-fig-memory", memory.memory(trace, trace.ranks[0], theme))
    ]
    if allocated != in_use:
        text = (
            "That is by the device's clock; as the host allocates and frees, which is ahead of it, "
            f"the most is {format_bytes(allocated)}."
        )
        shown.append(html.P(text, className="zs-note"))
    return shown


def _balance(trace: Trace, theme: Theme) -> list[Component]:
    return [
        drawing("sim-fig-states", balance.states(trace, theme)),
        drawing("sim-fig-busy", balance.busy(trace, theme)),
    ]


def _buckets(trace: Trace, theme: Theme) -> list[Component]:
    rank = trace.ranks[0]
    if not bucket_fills(trace, rank):
        text = (
            "No gradient waits in a bucket here: this schedule reduces none, or each where it is."
        )
        return [html.P(text, className="zs-note", role="status")]
    shown: list[Component] = [drawing("sim-fig-buckets", buckets.buckets(trace, rank, theme))]
    if held := peak_bytes(trace, "memory.buckets"):
        note = f"Bucket buffers take up to {format_bytes(held)} of a rank's memory."
        shown.append(html.P(note, className="zs-note"))
    return shown


_VIEWS: Final[dict[str, Callable[[Trace, Theme], list[Component]]]] = {
    "step": _step,
    "memory": _memory,
    "balance": _balance,
    "buckets": _buckets,
}
