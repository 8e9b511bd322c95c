"""The order in which a rank's host issued a step, as one line: `AG0 F0 AG1 F1 … OPT`."""

from __future__ import annotations

from itertools import groupby
from typing import Final

import polars as pl

from zerosim.analysis.steps import steady_step
from zerosim.kinds import COMMUNICATION, ORDERED, PREFIX, Kind
from zerosim.trace import Trace, of_kind

_PHASES: Final = (Kind.FORWARD, Kind.BACKWARD)


def issue_order(trace: Trace) -> str | None:
    """The names of the lowest rank's ops in the first steady step, in host issue order.

    A layer that ran as several ops, as in an imported trace, stands as one `F`, `B` or `OPT` with
    its unit. None if the run does not say which ops are forward and backward.
    """
    step = steady_step(trace)
    if step is None or not trace.ranks:
        return None
    rows = trace.spans.filter(
        (pl.col("rank") == trace.ranks[0]) & (pl.col("step") == step) & of_kind(ORDERED)
    ).select(pl.col("kind", "name", "unit").cast(pl.String))
    if not set(_PHASES) & set(rows["kind"]):
        return None
    words = (_word(Kind(kind), name, unit) for kind, name, unit in rows.iter_rows())
    return " ".join(
        word for (word, whole), repeats in groupby(words) for _ in (repeats if whole else [None])
    )


def _word(kind: Kind, name: str, unit: str | None) -> tuple[str, bool]:
    called = f"{PREFIX.get(kind, kind.value)}{unit or ''}"
    whole = kind in COMMUNICATION or name == called
    return (name if whole else called), whole
