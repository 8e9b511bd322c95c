"""Measured memory beside what is predicted: peaks, states and what fits, scored by split and source."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from zerosim.errors import InputError, MeasurementError
from zerosim.validation.cells import Cells
from zerosim.validation.memory_figures import fits_bytes, predicted
from zerosim.validation.memory_rows import MemoryRow, memory_row
from zerosim.validation.memory_sources import Corrected, corrected
from zerosim.validation.rows import LeftOut
from zerosim.validation.score import Errors, weighed


@dataclass(frozen=True, slots=True)
class MemoryScore:
    """A row's figure, predicted and measured: bytes, or parameters where `figure` is largest.

    `defaults` are (column, value, why) of blanks, and of what the source says otherwise.
    """

    row_id: str
    source_id: str
    split: str
    figure: str
    predicted: int
    measured: int
    defaults: tuple[tuple[str, str, str], ...]

    @property
    def in_parameters(self) -> bool:
        """Whether the figure is no bytes, but how many parameters the largest model has."""
        return self.figure == "largest"

    @property
    def ln_ratio(self) -> float:
        """ln(predicted / measured): above 0 predicts too much."""
        return math.log(self.predicted / self.measured)


@dataclass(frozen=True, slots=True)
class FitScore:
    """Whether a micro-batch fits, as the source says and as predicted, in bytes of the device."""

    row_id: str
    source_id: str
    split: str
    micro_batch: int
    fits: bool
    predicted_bytes: int
    limit_bytes: int
    defaults: tuple[tuple[str, str, str], ...]

    @property
    def hit(self) -> bool:
        """Whether the prediction says the same."""
        return self.fits == (self.predicted_bytes <= self.limit_bytes)


@dataclass(frozen=True, slots=True)
class SplitErrors:
    """Errors of one split, each source with the same weight, and of each source; hits of claims."""

    split: str
    errors: Errors | None
    sources: tuple[tuple[str, Errors], ...]
    hits: int
    claims: int


@dataclass(frozen=True, slots=True)
class MemoryScores:
    """Every row as it is scored, or left out and why; `filled`: how often each column was filled."""

    rows: tuple[MemoryScore, ...]
    fits: tuple[FitScore, ...]
    left_out: tuple[LeftOut, ...]
    splits: tuple[SplitErrors, ...]
    filled: tuple[tuple[str, int], ...]


def memory_scores(rows: Iterable[Cells]) -> MemoryScores:
    """Score rows with the columns of the shared table of measured memory, in their order.

    Splits stay apart: calib, test, then the others as they come. Rows that cannot be compared are
    named with the reason.
    """
    scores: list[MemoryScore] = []
    fits: list[FitScore] = []
    left_out: list[LeftOut] = []
    for cells in rows:
        source = cells.text("source_id") or "unnamed source"
        try:
            found = _answers(corrected(cells))
        except MeasurementError as error:
            wanted = cells.text("split") in ("calib", "test", None)
            left_out.append(LeftOut(cells.row_id, source, str(error), wanted=wanted))
            continue
        scores += [one for one in found if isinstance(one, MemoryScore)]
        fits += [one for one in found if isinstance(one, FitScore)]
    every: list[MemoryScore | FitScore] = [*scores, *fits]
    filled = Counter(column for one in every for column, _, _ in one.defaults)
    return MemoryScores(
        rows=tuple(scores),
        fits=tuple(fits),
        left_out=tuple(left_out),
        splits=_splits(scores, fits),
        filled=tuple(sorted(filled.items())),
    )


def _answers(row: Corrected) -> Sequence[MemoryScore | FitScore]:
    """What a row's figure is predicted to be, or of each of its claims whether it holds."""
    read = memory_row(row.cells)
    if read.split == "exclude":
        raise row.cells.refused(f"split is '{read.split}'")
    try:
        if read.measured is None:
            return _fits(read, row)
        value, defaults = predicted(read, row)
    except MeasurementError:
        raise
    except InputError as error:
        raise row.cells.refused(str(error)) from None
    every = tuple(d.told for d in (*row.notes, *read.defaults, *defaults))
    score = MemoryScore(
        read.row_id, read.source_id, read.split, read.figure, value, read.measured, every
    )
    return (score,)


def _fits(read: MemoryRow, row: Corrected) -> tuple[FitScore, ...]:
    if read.limit_bytes is None:
        raise row.cells.refused("gpu_mem_gb is blank: say how much memory there is")
    found = []
    for claim in read.claims:
        value, defaults = fits_bytes(row, claim.micro_batch, read.limit_bytes)
        every = tuple(d.told for d in (*row.notes, *read.defaults, *defaults))
        found.append(
            FitScore(
                read.row_id,
                read.source_id,
                read.split,
                claim.micro_batch,
                fits=claim.fits,
                predicted_bytes=value,
                limit_bytes=read.limit_bytes,
                defaults=every,
            )
        )
    return tuple(found)


def _splits(scores: Sequence[MemoryScore], fits: Sequence[FitScore]) -> tuple[SplitErrors, ...]:
    splits = [*(one.split for one in scores), *(one.split for one in fits)]
    named = dict.fromkeys(("calib", "test", *splits))
    found = []
    for split in named:
        own = [(one.source_id, one.ln_ratio) for one in scores if one.split == split]
        claims = [one.hit for one in fits if one.split == split]
        sources = []
        for source in dict.fromkeys(name for name, _ in own):
            errors = weighed([pair for pair in own if pair[0] == source])
            if errors is not None:
                sources.append((source, errors))
        found.append(SplitErrors(split, weighed(own), tuple(sources), sum(claims), len(claims)))
    return tuple(found)
