"""The parts about collectives, memory, mechanisms, constants, and what was assumed or left out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import Any, Final

from zerosim.hardware.calibration import Calibration
from zerosim.units import format_bytes, format_count
from zerosim.validation.ablation import Ablated
from zerosim.validation.board import Scoreboard
from zerosim.validation.collectives import BARS, CollectiveScores, SeriesScore
from zerosim.validation.memory import MemoryScore, MemoryScores, SplitErrors
from zerosim.validation.reasons import Reason
from zerosim.validation.report.markdown import BLANK, cells, share, table

_MOST_FIGURES: Final = 10
_TITLES: Final = {"test": "Nothing was fitted on", "calib": "Constants are fitted on"}


def collectives(found: CollectiveScores) -> str:
    """The series of each split, worst first, with the bars they were to meet."""
    parts = []
    for split, title in _TITLES.items():
        mine = found.of(split)
        if mine:
            bar, large = BARS[split]
            met = sum(bool(score.meets) for score in mine)
            said = (
                f"{met} of {len(mine)} are within {bar:.0%} on average from 32 KiB up, "
                f"and within {large:.0%} from 64 MiB up."
            )
            parts.append(f"### {title}\n\n{said}\n\n{_series(mine)}")
    return "\n".join(parts)


def _series(scores: Sequence[SeriesScore]) -> str:
    header = ("series", "machine", "collectives", "n", "mean", "from 64 MiB", "bias", "within")
    rows = [
        (
            score.series,
            score.cluster,
            ", ".join(kind.replace("_", "-") for kind in score.kinds),
            str(score.n),
            share(score.mean),
            share(score.mean_large),
            share(score.bias, signed=True),
            {None: BLANK, True: "yes", False: "no"}[score.meets],
        )
        for score in scores
    ]
    return table(header, rows)


def memory(found: MemoryScores) -> str:
    """Errors of each split by source, what fits, and the worst figures; splits apart."""
    parts = [
        f"### {_TITLES.get(split.split, split.split)}\n\n{_split(split, found)}"
        for split in sorted(found.splits, key=lambda one: one.split != "test")
        if split.errors is not None or split.claims
    ]
    return "\n".join(parts)


def _split(split: SplitErrors, found: MemoryScores) -> str:
    header = ("source", "n", "median", "mean", "90 % within", "bias")
    lines = [("all", *cells(split.errors))]
    lines += [(source, *cells(errors)) for source, errors in split.sources]
    mine = [row for row in found.rows if row.split == split.split]
    worst = sorted(mine, key=lambda row: (-abs(row.ln_ratio), row.row_id))[:_MOST_FIGURES]
    head = ("row", "source", "figure", "predicted", "measured", "error")
    parts = [table(header, lines)]
    if split.claims:
        parts.append(
            f"Of {split.claims} claims that a micro-batch fits or does not, {split.hits} are "
            "predicted so.\n"
        )
    return "\n".join([*parts, f"Worst first:\n\n{table(head, [_figure(row) for row in worst])}"])


def _figure(row: MemoryScore) -> tuple[str, ...]:
    show = format_count if row.in_parameters else format_bytes
    values = show(row.predicted), show(row.measured)
    return (
        row.row_id, row.source_id, row.figure, *values, share(row.ln_ratio, signed=True)
    )  # fmt: skip


def mechanisms(found: Sequence[Ablated]) -> str:
    """Errors without each mechanism, those of unseen rows alone."""
    if not found:
        return "Nobody has taken the mechanisms out since the constants were fitted: `make ablation`.\n"
    refitted = "fitted anew each time" if found[0].refitted else "as they are"
    suites = list(found[0].errors)
    header = ("without", *(f"{name}, {kind}" for name in suites for kind in ("median", "mean")))
    rows = [
        (one.says, *(cell for name in suites for cell in _pair(one, name)))
        for one in found
    ]  # fmt: skip
    return f"Constants are {refitted}.\n\n{table(header, rows)}"


def _pair(one: Ablated, suite: str) -> tuple[str, str]:
    errors = one.errors.get(suite)
    return (BLANK, BLANK) if errors is None else (share(errors.median), share(errors.mean))


def constants(calibration: Calibration) -> str:
    """Every constant with its source, and how many there are of each kind."""
    said = [f"- {what}: {text}" for what, text in calibration.provenance.items()]
    parts = ["\n".join([*said, ""])] if said else []
    for kind, title in (("device", "GPUs"), ("fabric", "Networks"), ("launcher", "Launchers")):
        parts.append(f"### {title}\n\n{_constants(getattr(calibration, kind))}")
    return "\n".join(parts)


def _constants(named: dict[str, Any]) -> str:
    if not named:
        return f"{BLANK}\n"
    every = [f.name for f in fields(next(iter(named.values()))) if f.name != "source"]
    names = [n for n in every if any(getattr(one, n) is not None for one in named.values())]
    rows = [
        (of, *(_number(getattr(one, name)) for name in names), str(one.source))
        for of, one in named.items()
    ]
    said = f"At most {len(names)} numbers each, all sizes and counts alike.\n"
    return f"{said}\n{table(('of', *(f'`{name}`' for name in names), 'source'), rows)}"


def _number(value: float | None) -> str:
    return BLANK if value is None else f"{value:.4g}"


def filled(board: Scoreboard, held: MemoryScores) -> str:
    """The defaults that stand for blanks, counted, of steps and of memory."""
    why = {(c, v): text for row in board.rows for c, v, text in row.defaults}
    reason = {f"{column} = {value}": text for (column, value), text in why.items()}
    rows = [(what, str(n), reason.get(what, BLANK)) for what, n in board.filled]
    also = ", ".join(f"{column} {n}" for column, n in held.filled)
    text = table(("assumed", "rows", "why"), rows)
    return f"{text}\nOf memory, by column: {also}.\n" if also else text


def left_out(found: Sequence[Reason]) -> str:
    """Why rows are left out: those that were meant to be scored, then the others."""
    return "\n".join(_reasons(found))


def _reasons(found: Sequence[Reason]) -> Iterator[str]:
    every = sorted(found, key=lambda one: (-one.n, one.source_id, one.row_id))
    for wanted, title in ((True, "Meant to be scored"), (False, "Not meant to be scored")):
        mine = [one for one in every if one.wanted == wanted]
        if mine:
            rows = [(one.source_id, str(one.n), one.sentence) for one in mine]
            total = sum(one.n for one in mine)
            yield f"### {title}: {total} rows\n\n{table(('source', 'rows', 'why'), rows)}"
