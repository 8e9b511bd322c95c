"""The recordings of several ranks, put together into one Trace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

import polars as pl

from zerosim.errors import TraceFileError
from zerosim.importers.clocks import compare_clocks
from zerosim.importers.identity import assign_ranks, name_groups, world_size
from zerosim.importers.matching import Ties, tie
from zerosim.importers.recording import ROWS, Recording
from zerosim.quality import Quality
from zerosim.trace import SAMPLES, Clock, Flag, Meta, StepWindow, Trace, flagged, make_trace
from zerosim.units import format_ns


def merge(recordings: Sequence[Recording], name: str, warnings: Sequence[str] = ()) -> Trace:
    """The trace of a run from the recordings of its ranks (one or more), in order of rank."""
    ranks, doubts = assign_ranks(recordings)
    order = sorted(range(len(ranks)), key=ranks.__getitem__)
    recordings = [recordings[i] for i in order]
    ranks = [ranks[i] for i in order]
    size, contradictions = world_size(recordings, ranks)
    names, groups = name_groups(recordings)
    spans = _stacked([_named(r.spans, n) for r, n in zip(recordings, names, strict=True)], ranks)
    ties = tie(spans, one_clock=_one_clock(recordings))
    spans = spans.drop("sequence").with_columns(ties.collective)
    clock, complaints = _clock(recordings, ties)
    if len(ranks) > 1:
        clock = replace(clock, offsets_ns=compare_clocks(spans).moves, corrected=False)
    meta = Meta(
        name=name,
        source="imported",
        world_size=size,
        device=next((r.device for r in recordings if r.device), None),
        clock=clock,
        quality=_quality(recordings, ranks, (*warnings, *doubts, *contradictions, *complaints)),
        groups=groups,
        steps=tuple(
            StepWindow(rank, w.step, w.start_ns, w.end_ns)
            for rank, r in zip(ranks, recordings, strict=True)
            for w in r.windows
        ),
    )
    samples = _stacked([r.samples for r in recordings], ranks).select(list(SAMPLES))
    return make_trace(spans, meta, samples, {"files": [r.source for r in recordings]})


def one_format(
    formats: Mapping[str, list[Recording]], named: AbstractSet[str], warnings: list[str]
) -> list[Recording]:
    """The recordings of the format that timed most; `warnings` say what of others was left out.

    Two formats tell of the same run twice. Raises TraceFileError if both were asked for by name.
    """
    if len(named) > 1:
        raise TraceFileError(
            f"the files are of several formats ({', '.join(sorted(named))}): import one format at a time"
        )
    chosen = max(formats, key=lambda name: (name in named, _timed(formats[name])))
    for name, recordings in formats.items():
        if name != chosen:
            warnings.append(
                f"{len(recordings)} recording{'s' * (len(recordings) > 1)} of format {name} left out beside {chosen},"
                f" '{recordings[0].source}' first: import them by themselves"
            )
    return formats[chosen]


def _timed(recordings: Sequence[Recording]) -> int:
    work = ~flagged(Flag.UNTIMED) & (pl.col("start_ns") < pl.col("end_ns"))
    return sum(r.spans.filter(work).height for r in recordings)


def _stacked(frames: Sequence[pl.DataFrame], ranks: Sequence[int]) -> pl.DataFrame:
    return pl.concat(
        [
            frame.with_columns(pl.lit(rank, dtype=pl.Int32).alias("rank"))
            for rank, frame in zip(ranks, frames, strict=True)
        ]
    )


def _named(spans: pl.DataFrame, names: dict[str, str]) -> pl.DataFrame:
    if all(old == new for old, new in names.items()):
        return spans
    renamed = pl.col("group").cast(pl.String).replace(names).cast(ROWS["group"])
    return spans.with_columns(renamed)


def _telling(recordings: Sequence[Recording]) -> list[Recording]:
    """Those that say when something was."""
    return [r for r in recordings if r.spans.height or r.windows]


def _one_clock(recordings: Sequence[Recording]) -> bool:
    telling = _telling(recordings)
    return all(r.absolute for r in telling) or _shared(telling)


def _shared(telling: Sequence[Recording]) -> bool:
    """Whether all were read from one clock, though nobody knows when that one started."""
    clocks = {None if r.absolute else r.clock for r in telling}
    return len(clocks) == 1 and None not in clocks


def _clock(recordings: Sequence[Recording], ties: Ties) -> tuple[Clock, tuple[str, ...]]:
    telling = _telling(recordings)
    if len(recordings) == 1:
        return Clock(aligned=True), ()
    if not telling:
        return Clock(aligned=False), ()
    if not _one_clock(recordings):
        timed = _timed(recordings)
        why = "the files do not say when their clocks started" if timed else "nothing is timed"
        return Clock(aligned=False), (f"{why}: ranks cannot be compared in time",)
    loose = (f"{ties.loose} collectives have no partner on other ranks",) if ties.loose else ()
    if ties.apart_ns:
        late, apart = (
            "ops of some ranks were noticed late, by",
            "the clocks of the ranks disagree by",
        )
        by = f"{late if _shared(telling) else apart} at least {format_ns(ties.apart_ns)}"
        return Clock(aligned=False), (*loose, f"{by}: collectives end before all came")
    return Clock(aligned=True), loose


def _quality(recordings: Sequence[Recording], ranks: Sequence[int], more: Sequence[str]) -> Quality:
    parts = [r.quality for r in recordings]
    return Quality(
        events=sum(q.events for q in parts),
        repaired=sum(q.repaired for q in parts),
        skipped=sum(q.skipped for q in parts),
        lost=sum(q.lost for q in parts),
        before_window=sum(q.before_window for q in parts),
        unsized=sum(q.unsized for q in parts),
        warnings=(*more, *(w for q in parts for w in q.warnings)),
        places=tuple(place for q in parts for place in q.places),
        unknown=tuple(dict.fromkeys(text for q in parts for text in q.unknown)),
        ranks=tuple(ranks),
    )
