"""Memory: what a rank holds, as measured and as predicted, and which micro-batches fit."""

from __future__ import annotations

from typing import Final

from dash.development.base_component import Component

from zerosim.figures import held
from zerosim.figures.palette import Theme
from zerosim.units import format_bytes, format_count
from zerosim.validation.memory import FitScore, MemoryScore, MemoryScores
from zerosim.validation.published import Published
from zerosim_app.components.cards import panel
from zerosim_app.components.scores.parts import Row, assumed, framed
from zerosim_app.components.tables import Column, table
from zerosim_app.urlstate import AccuracyState

_HELD: Final = (
    Column("row_id", "Row", parts=2),
    Column("source", "Source", parts=4),
    Column("split", "Split", parts=2),
    Column("figure", "Figure", parts=3),
    Column("predicted", "Predicted", parts=3),
    Column("measured", "Measured", parts=3),
    Column("error", "Error", "percent", parts=3, tip="ln(predicted / measured)"),
    Column("assumed", "Assumed", parts=6, told=True, tip="What stands for blanks of the source"),
)
_FITS: Final = (
    Column("row_id", "Row"),
    Column("source", "Source", wide=True),
    Column("split", "Split"),
    Column("micro_batch", "Micro-batch", "count"),
    Column("fits", "It ran"),
    Column("predicted", "Predicted", "bytes"),
    Column("limit", "Device", "bytes"),
    Column("hit", "Predicted so"),
)


def memory(published: Published, state: AccuracyState, theme: Theme) -> list[Component]:
    """Figures of the split that is asked for, the worst first, and claims of what fits."""
    found = published.memory
    rows = [row for row in found.rows if _kept(row.split, row.source_id, state, found)]
    claims = [one for one in found.fits if _kept(one.split, one.source_id, state, found)]
    ordered = sorted(rows, key=lambda row: (-abs(row.ln_ratio), row.row_id))
    label = "Measured memory, worst first"
    return [
        framed(
            "Predicted against measured", "acc-held", held.held(rows, theme),
            "a point a figure; bands of 5 % and 20 %",
        ),
        panel(
            "Figures, worst first",
            table("acc-memory", _HELD, [_figure(row) for row in ordered], label=label),
        ),
        panel(
            "What fits",
            table("acc-fits", _FITS, [_claim(one) for one in claims], label="Whether it fits"),
            note="micro-batches that ran, and that did not",
        ),
    ]  # fmt: skip


def _kept(split: str, source: str, state: AccuracyState, found: MemoryScores) -> bool:
    splits, sources = ({getattr(row, f) for row in found.rows} for f in ("split", "source_id"))
    wrong_split = state.split in splits and split != state.split
    return not wrong_split and (state.source not in sources or source == state.source)


def _figure(row: MemoryScore) -> Row:
    show = format_count if row.in_parameters else format_bytes
    return {
        "row_id": row.row_id,
        "source": row.source_id,
        "split": row.split,
        "figure": row.figure,
        "predicted": show(row.predicted),
        "measured": show(row.measured),
        "error": row.ln_ratio,
        "assumed": assumed(row.defaults),
    }


def _claim(one: FitScore) -> Row:
    return {
        "row_id": one.row_id,
        "source": one.source_id,
        "split": one.split,
        "micro_batch": one.micro_batch,
        "fits": "yes" if one.fits else "no",
        "predicted": one.predicted_bytes,
        "limit": one.limit_bytes,
        "hit": "yes" if one.hit else "no",
    }
