"""The part of a run that was asked for, and the refusal of what had to be mended."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

import polars as pl

from zerosim.errors import TraceFileError
from zerosim.importers.choice import Choice
from zerosim.importers.recording import Recording
from zerosim.quality import Quality
from zerosim.trace import StepWindow, Trace, of_kind
from zerosim.units import format_ns

_LONG_AGO: Final = -(2**62)
_LONG_HENCE: Final = 2**62


def refuse_repairs(recordings: Sequence[Recording]) -> None:
    """Raises TraceFileError if anything was repaired, left out or lost."""
    qualities = [recording.quality for recording in recordings]
    counts = (
        (sum(q.repaired for q in qualities), "repaired"),
        (sum(q.skipped for q in qualities), "left out"),
        (sum(q.lost for q in qualities), "lost"),
    )
    odd = [f"{count:,} {what}" for count, what in counts if count]
    if odd:
        where = next(f"'{r.source}'{_byte(r.quality)}" for r in recordings if _is_odd(r.quality))
        raise TraceFileError(
            f"events: {', '.join(odd)}, the first in {where}: import without --strict"
        )


def _is_odd(quality: Quality) -> bool:
    return bool(quality.repaired or quality.skipped or quality.lost)


def _byte(quality: Quality) -> str:
    first = next((place.byte for place in quality.places if place.byte is not None), None)
    return "" if first is None else f" at byte {first}"


def select(trace: Trace, choice: Choice) -> Trace:
    """What `choice` asks for of `trace`; raises TraceFileError if it asks for what is not there."""
    if choice.ranks is not None:
        trace = _of_ranks(trace, choice.ranks)
    if choice.steps is not None:
        trace = _of_steps(trace, choice.steps)
    if choice.window is not None:
        trace = _within(trace, choice.window)
    if choice.kinds is None:
        return trace
    kinds = sorted(kind.value for kind in choice.kinds)
    note = f"only {', '.join(kinds)} loaded: figures count nothing else"
    return _noted(replace(trace, spans=trace.spans.filter(of_kind(choice.kinds))), note)


def _of_ranks(trace: Trace, ranks: frozenset[int]) -> Trace:
    quality = trace.meta.quality
    present = {*trace.ranks, *quality.ranks}
    absent = sorted(ranks - present)
    if absent:
        known = ", ".join(map(str, sorted(present))) or "none"
        raise TraceFileError(f"no rank {absent[0]} in the files: they are of {known}")
    chosen = pl.col("rank").is_in(sorted(ranks))
    windows = (w for w in trace.meta.steps if w.rank in ranks)
    left_out = len(present - ranks)
    kept = _kept(trace, chosen, chosen, windows)
    kept = replace(
        kept, meta=replace(kept.meta, quality=replace(quality, ranks=tuple(sorted(ranks))))
    )
    return (
        _noted(kept, f"ranks of the files that were not asked for: {left_out}")
        if left_out
        else kept
    )


def _of_steps(trace: Trace, steps: tuple[int, int]) -> Trace:
    first, last = steps
    windows = tuple(w for w in trace.meta.steps if first <= w.step <= last)
    found = sorted({w.step for w in trace.meta.steps} | set(trace.spans["step"].drop_nulls()))
    if not any(first <= step <= last for step in found):
        known = (
            f"the files have {found[0]} to {found[-1]}"
            if found
            else "the files mark none, import without --steps"
        )
        asked = f"step {first}" if first == last else f"steps {first} to {last}"
        raise TraceFileError(f"no {asked}: {known}")
    begin = {w.rank: min(v.start_ns for v in windows if v.rank == w.rank) for w in windows}
    end = {w.rank: max(v.end_ns for v in windows if v.rank == w.rank) for w in windows}
    bounds = pl.DataFrame(
        {"rank": list(begin), "from": list(begin.values()), "to": list(end.values())}
    )
    inside = (
        trace.samples.join(
            bounds.cast({"rank": pl.Int32}), on="rank", how="inner", maintain_order="left"
        )
        .filter(pl.col("time_ns").is_between("from", "to"))
        .drop("from", "to")
    )
    spans = trace.spans.filter(pl.col("step").is_between(first, last))
    return replace(trace, spans=spans, samples=inside, meta=replace(trace.meta, steps=windows))


def _within(trace: Trace, window: tuple[int | None, int | None]) -> Trace:
    begin = trace.begin_ns
    low, high = (bound if bound is None else begin + bound for bound in window)
    low = _LONG_AGO if low is None else low
    high = _LONG_HENCE if high is None else high
    spans = (pl.col("end_ns") >= low) & (pl.col("start_ns") <= high)
    samples = pl.col("time_ns").is_between(low, high)
    # A step that is cut has no figures.
    whole = (w for w in trace.meta.steps if low <= w.start_ns and w.end_ns <= high)
    chosen = _kept(trace, spans, samples, whole)
    if trace.spans.height and not chosen.spans.height:
        last = trace.spans["end_ns"].max()
        lasts = format_ns(last - begin) if isinstance(last, int) else "unknown"
        raise TraceFileError(f"nothing ran in that window: the run lasts {lasts}")
    return chosen


def _kept(trace: Trace, spans: pl.Expr, samples: pl.Expr, steps: Iterable[StepWindow]) -> Trace:
    return replace(
        trace,
        spans=trace.spans.filter(spans),
        samples=trace.samples.filter(samples),
        meta=replace(trace.meta, steps=tuple(steps)),
    )


def _noted(trace: Trace, note: str) -> Trace:
    quality = trace.meta.quality
    return replace(
        trace,
        meta=replace(trace.meta, quality=replace(quality, warnings=(*quality.warnings, note))),
    )
