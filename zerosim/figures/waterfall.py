"""Where a step's time went, as one stacked bar a run; every nanosecond stands in one account."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from zerosim.analysis.accounting import Accounting
from zerosim.figures.palette import LAUNCH, OPS, Swatch, Theme, op_colour, text_on
from zerosim.figures.scale import time_scale
from zerosim.figures.theme import Drawing, blank, nothing
from zerosim.kinds import COMMUNICATION, Kind
from zerosim.units import format_ns

_LABEL_FROM: Final = 0.07
"""Share of the longest step from which a part has room for its label."""


def waterfall(accounts: Sequence[tuple[str, Accounting | None]], theme: Theme) -> Drawing:
    """One bar a run, named by the first of each pair, of what its slowest rank did in a step."""
    known = [(name, account) for name, account in accounts if account is not None]
    if not known:
        return nothing(
            theme, "No step of these runs is complete, so there is nothing to account for."
        )
    longest = max(account.step_ns for _, account in known)
    clock = time_scale(longest)
    figure = blank(theme, x=f"time of the step, {clock.unit}", height=110 + 56 * len(known))
    figure.update_layout(
        barmode="stack",
        yaxis={"autorange": "reversed", "type": "category", "title": None, "automargin": False},
        margin={"l": _room(name for name, _ in known), "r": 16, "t": 40, "b": 44},
    )
    names = [name for name, _ in known]
    for label, swatch in _accounts(known):
        parts = [_part(account, label) for _, account in known]
        figure.add_bar(
            y=names,
            x=clock(parts),
            name=label.replace("_", "-"),
            orientation="h",
            marker={
                "color": swatch[theme],
                "pattern": {"shape": "/" if swatch.hatched else "", "size": 5, "solidity": 0.2},
                "line": {"width": 0},
            },
            text=[format_ns(p) if p >= _LABEL_FROM * longest else "" for p in parts],
            textposition="inside",
            insidetextanchor="middle",
            textangle=0,
            textfont={"color": text_on(swatch[theme]), "size": 11},
            customdata=[format_ns(p) for p in parts],
            hovertemplate=f"%{{y}}: {label.replace('_', '-')} %{{customdata}}<extra></extra>",
        )
    return Drawing(figure, " ".join(_sentence(name, account) for name, account in known))


def _room(names: Iterable[str]) -> int:
    """Pixels that the longest name takes, within reason."""
    return min(max(132, *(24 + 7 * len(name) for name in names)), 240)


def _sentence(name: str, account: Accounting) -> str:
    parts = [
        f"{label.replace('_', '-')} {format_ns(_part(account, label))}"
        for label, _ in _accounts([(name, account)])
    ]
    return f"{name}, rank {account.rank}: {format_ns(account.step_ns)} = {', '.join(parts)}."


def explain(account: Accounting) -> str:
    """Why the communication of a step is not hidden, in one sentence."""
    exposed = sum(ns for _, ns in account.exposed_ns)
    losses = {
        "transfers that nothing hides": exposed,
        "waiting for other ranks": account.wait_ns,
        "waiting for the host to launch": account.launch_ns,
        "waiting for other ops": account.idle_ns,
    }
    lost = sum(losses.values())
    step = format_ns(account.step_ns)
    if not lost:
        return f"all communication is hidden: the device computes for the whole step of {step}."
    worst = max(losses, key=lambda name: losses[name])
    share = 100 * lost / account.step_ns
    text = f"of {step}, {format_ns(lost)} ({share:.0f} %) are not computing, chiefly {worst}"
    words = format_ns(losses[worst])
    if worst.startswith("transfers"):
        kind, ns = max(account.exposed_ns, key=lambda pair: pair[1])
        most = "all" if ns == exposed else format_ns(ns)
        words += f", {most} of it {kind.replace('_', '-')}"
    return f"{text} ({words})."


def _accounts(known: Sequence[tuple[str, Accounting]]) -> list[tuple[str, Swatch]]:
    """The accounts that any of the runs has time on, in the order in which they are stacked."""
    exposed = [k for k in COMMUNICATION if any(_part(a, k.value) for _, a in known)]
    every = [
        ("compute", OPS["forward"]),
        ("optimizer", OPS["optimizer"]),
        *((k.value, _swatch(k)) for k in exposed),
        ("wait", Swatch("wait", OPS["copy"].light, OPS["copy"].dark, hatched=True)),
        ("launch", LAUNCH),
        ("idle", OPS["idle"]),
    ]
    return [(name, swatch) for name, swatch in every if any(_part(a, name) for _, a in known)]


def _swatch(kind: Kind) -> Swatch:
    """Its colour; hatched where another kind, which may stand beside it, has the same one."""
    colours = op_colour(kind, "light"), op_colour(kind, "dark")
    return Swatch(kind.value, *colours, hatched=kind in (Kind.REDUCE, Kind.BROADCAST))


def _part(account: Accounting, label: str) -> int:
    if label in COMMUNICATION:
        return dict(account.exposed_ns).get(label, 0)
    return int(getattr(account, f"{label}_ns"))
