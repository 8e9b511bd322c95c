"""What comes of a scenario: its figures, its order, and one view of its step, memory, balance or buckets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from dash import html
from dash.development.base_component import Component

from zerosim.analysis.accounting import account
from zerosim.analysis.summary import summarize
from zerosim.errors import ScenarioError
from zerosim.figures import balance, buckets, memory
from zerosim.figures.lanes import lanes
from zerosim.figures.palette import Theme
from zerosim.figures.waterfall import waterfall
from zerosim.scenario import Scenario, plan_of, run
from zerosim.trace import Trace
from zerosim_app.components.cards import drawing
from zerosim_app.components.facts import tiles

MAX_OPS: Final = 20_000
"""So many ops a rank are simulated and drawn in about a second, while someone turns a knob."""
_MAX_ORDER: Final = 600
VIEWS: Final = {
    "step": "Step",
    "memory": "Memory",
    "balance": "Load balance",
    "buckets": "Buckets",
}


def preview(scenario: Scenario, view: str, theme: Theme) -> list[Component]:
    """Simulate, and show. Raises ScenarioError for a scenario that takes longer than a moment."""
    plan = plan_of(scenario)
    if len(plan.ops) > MAX_OPS:
        raise ScenarioError(
            f"the scenario has {len(plan.ops):,} ops a rank, over {MAX_OPS:,}: keep it as a run, "
            "or lower layers, micro_batches or steps"
        )
    trace = run(scenario)
    summary = summarize(trace)
    return [
        tiles(summary, scenario.to_dict()),
        _order(summary["order"], trace),
        *_VIEWS.get(view, _step)(trace, theme),
    ]


def _order(order: str | None, trace: Trace) -> Component:
    text = order or "unknown"
    if len(text) > _MAX_ORDER:
        text = f"{text[:_MAX_ORDER].rsplit(' ', 1)[0]} …"
    steady = trace.meta.steady_from or 1
    steps = {window.step for window in trace.meta.steps}
    early = f" This engine warms up: ask for {steady} steps or more." if steady not in steps else ""
    return html.P(
        [html.Span("Order of a rank ", className="zs-note"), html.Code(text), html.Em(early)],
        className="zs-order",
    )


def _step(trace: Trace, theme: Theme) -> list[Component]:
    return [
        drawing("sim-fig-lanes", lanes(trace, trace.ranks[0], theme)),
        drawing("sim-fig-step", waterfall([("one step", account(trace))], theme)),
    ]


def _memory(trace: Trace, theme: Theme) -> list[Component]:
    return [drawing("sim-fig-memory", memory.memory(trace, trace.ranks[0], theme))]


def _balance(trace: Trace, theme: Theme) -> list[Component]:
    return [
        drawing("sim-fig-states", balance.states(trace, theme)),
        drawing("sim-fig-busy", balance.busy(trace, theme)),
    ]


def _buckets(trace: Trace, theme: Theme) -> list[Component]:
    return [drawing("sim-fig-buckets", buckets.buckets(trace, trace.ranks[0], theme))]


_VIEWS: Final[dict[str, Callable[[Trace, Theme], list[Component]]]] = {
    "step": _step,
    "memory": _memory,
    "balance": _balance,
    "buckets": _buckets,
}
