"""The one door: a Trace says when each rank did what, whoever made it (simulated, measured, imported).

Spans and samples are columns (polars); what is true of the run as a whole is `Meta`.
All times are integer nanoseconds on one clock; null means unknown and is never written as 0.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import IntFlag
from typing import Any, Final, Literal

import polars as pl

from zerosim.errors import TraceFileError
from zerosim.kinds import KINDS, Kind
from zerosim.quality import SOUND, Quality

FORMAT_VERSION: Final = 1
MAX_RANKS: Final = 2**24
"""A header that names more is damaged or hostile; its ranges are unfolded one by one."""
Source = Literal["simulated", "measured", "imported"]


class Flag(IntFlag):
    """What is not quite right with a span."""

    UNTIMED = 1  # there is no time for it: start and end are its issue time
    UNFINISHED = 2  # it never ended: end is the last time known
    BEFORE_WINDOW = 4  # launched before the recording began, so its launch is unknown
    REPAIRED = 8  # the file was damaged here and was mended


SPANS: Final[dict[str, pl.DataType]] = {
    "rank": pl.Int32(),
    "stream": pl.Categorical(),
    "kind": pl.Enum(KINDS),
    "name": pl.Categorical(),
    "unit": pl.Categorical(),
    "issued_ns": pl.Int64(),
    "start_ns": pl.Int64(),
    "end_ns": pl.Int64(),
    "step": pl.Int32(),
    "micro_batch": pl.Int32(),
    "collective": pl.Int64(),
    "group": pl.Categorical(),
    "elements": pl.Int64(),
    "nbytes": pl.Int64(),
    "wire_bytes": pl.Int64(),
    "dtype": pl.Categorical(),
    "bucket": pl.Int32(),
    "flags": pl.UInt8(),
}
"""Columns of `Trace.spans`, one row an op and rank, in host issue order within a rank.

`issued_ns`: the host issued it (null: unknown). `start_ns`: this rank began it, that is, for a
collective, this rank arrived; the transfer starts when the last member has arrived
(docs/adr/0010). `end_ns` >= `start_ns`. `elements`, `nbytes`: what the program asked for (the full
tensor); `wire_bytes`: what this rank sent.
"""

SAMPLES: Final[dict[str, pl.DataType]] = {
    "time_ns": pl.Int64(),
    "rank": pl.Int32(),
    "counter": pl.Categorical(),
    "value": pl.Int64(),
}
"""Columns of `Trace.samples`: a counter has `value` from `time_ns` on.

Several rows of one moment stand in the order in which they happened; the last one holds on.
Counters: `memory.allocated` (bytes, as the host allocates and drops), `memory.in_use` (as the device
uses them) and its parts `memory.KIND` by memory kind, `memory.reserved`; `bucket.fill` (bytes);
`link.NAME` (bytes/s).
"""


@dataclass(frozen=True, slots=True)
class Group:
    """A process group: its size, and its ranks where they are known."""

    name: str
    size: int
    ranks: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class StepWindow:
    """When one rank was in one training step."""

    rank: int
    step: int
    start_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True)
class RankClass:
    """Ranks that do the same at the same time: `members` are inclusive ranges of ranks.

    The spans hold the rows of all members of a small run, of `representative` alone in a big one.
    """

    representative: int
    members: tuple[tuple[int, int], ...]

    def __post_init__(self) -> None:
        """Refuse ranges that are none, or more ranks than there can be."""
        if any(not 0 <= first <= last for first, last in self.members) or self.size > MAX_RANKS:
            raise TraceFileError(
                f"a class has ranks {self.members[:3]}: give ascending ranges of up to {MAX_RANKS}"
            )

    @property
    def ranks(self) -> tuple[int, ...]:
        """All member ranks, ascending."""
        return tuple(r for first, last in self.members for r in range(first, last + 1))

    @property
    def size(self) -> int:
        """How many ranks there are in the class."""
        return sum(last - first + 1 for first, last in self.members)


@dataclass(frozen=True, slots=True)
class StateBytes:
    """Bytes of model states that one rank (or each rank of its class) owns, padding included."""

    rank: int
    parameters: int
    gradients: int
    optimizer: int


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What is needed to turn a step time into tokens per second and MFU.

    FLOPs are model FLOPs of one rank and step: 6 per parameter and token, plus attention,
    12·layers·hidden·seq per token (`causal`: half of that). `peak_flops` is the device's.
    """

    n_params: int
    tokens: int | None
    flops: int | None
    flops_causal: int | None
    peak_flops: float | None


@dataclass(frozen=True, slots=True)
class Clock:
    """Whether the ranks share a clock, how wrong that may be, and what was added to each rank.

    Not `corrected`: nothing was added; `offsets_ns` is what the ends of collectives say should be.
    """

    aligned: bool
    error_ns: int | None = None
    offsets_ns: tuple[tuple[int, int], ...] = ()
    corrected: bool = True


@dataclass(frozen=True, slots=True)
class Meta:
    """What is true of a run as a whole. `engine` says which maker timed it.

    `steady_from`: the first step past the warm-up; null if unknown.
    """

    name: str
    source: Source
    world_size: int | None
    scenario: dict[str, Any] | None = None
    engine: str | None = None
    device: str | None = None
    clock: Clock = Clock(aligned=True, error_ns=0)
    quality: Quality = SOUND
    groups: tuple[Group, ...] = ()
    steps: tuple[StepWindow, ...] = ()
    classes: tuple[RankClass, ...] = ()
    states: tuple[StateBytes, ...] = ()
    model: ModelFacts | None = None
    finished: bool = True
    steady_from: int | None = None
    format_version: int = FORMAT_VERSION


@dataclass(frozen=True, slots=True)
class Trace:
    """A run: `spans` (columns SPANS), `samples` (columns SAMPLES), `meta`.

    `provenance` (when, where, by which versions) is kept beside a run, never part of its identity.
    """

    spans: pl.DataFrame
    samples: pl.DataFrame
    meta: Meta
    provenance: dict[str, Any] = field(default_factory=dict, compare=False)

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks that have rows of their own, ascending."""
        return tuple(self.spans["rank"].unique().sort().to_list())

    @property
    def seen_ranks(self) -> frozenset[int]:
        """The ranks of which it is known what they did, be it from the rows of another one."""
        return frozenset(rank for c in self.meta.classes for rank in c.ranks).union(self.ranks)

    @property
    def begin_ns(self) -> int:
        """When the first span began; 0 if there is none."""
        first = self.spans["start_ns"].min()
        return first if isinstance(first, int) else 0


def of_kind(kinds: Iterable[Kind]) -> pl.Expr:
    """Whether a span is of one of `kinds`."""
    return pl.col("kind").cast(pl.String).is_in([kind.value for kind in kinds])


def flagged(flags: Flag) -> pl.Expr:
    """Whether a span has any of `flags`."""
    return pl.col("flags") & int(flags) != 0


def make_trace(
    spans: pl.DataFrame | dict[str, Any],
    meta: Meta,
    samples: pl.DataFrame | dict[str, Any] | None = None,
    provenance: dict[str, Any] | None = None,
) -> Trace:
    """The only way into `Trace`: casts to the columns, fills absent ones with null, checks the rules.

    Raises TraceFileError if a span ends before it starts, or lacks rank, kind or times.
    """
    spans = _conform(spans, SPANS, defaults={"flags": 0})
    samples = _conform(samples if samples is not None else {}, SAMPLES, defaults={})
    for column in ("rank", "kind", "stream", "name", "start_ns", "end_ns", "flags"):
        if spans[column].null_count():
            raise TraceFileError(f"spans of '{meta.name}' lack '{column}' in some rows: fill it")
    if spans.height and bool((spans["end_ns"] < spans["start_ns"]).any()):
        raise TraceFileError(f"a span of '{meta.name}' ends before it starts: mend or drop it")
    return Trace(spans, samples, meta, provenance or {})


def _conform(
    table: pl.DataFrame | dict[str, Any],
    schema: dict[str, pl.DataType],
    defaults: dict[str, Any],
) -> pl.DataFrame:
    frame = table if isinstance(table, pl.DataFrame) else pl.DataFrame(table)
    if [*frame.schema.items()] == [*schema.items()]:
        return frame
    unknown = set(frame.columns) - set(schema)
    if unknown:
        raise TraceFileError(f"unknown columns {sorted(unknown)}: known are {', '.join(schema)}")
    columns = [
        pl.col(name).cast(dtype)
        if name in frame.columns
        else pl.lit(defaults.get(name), dtype=dtype).alias(name)
        for name, dtype in schema.items()
    ]
    if not frame.width:
        return pl.DataFrame(schema=schema)
    return frame.select(columns)


def expand(trace: Trace, ranks: tuple[int, ...] | None = None) -> Trace:
    """The same trace with rows for each of `ranks` (default: all), copied from its class.

    Ranks that have rows keep them; ranks of no class stay absent.
    """
    present = set(trace.ranks)
    source_of = {r: c.representative for c in trace.meta.classes for r in c.ranks}
    wanted = sorted(present | set(source_of)) if ranks is None else list(ranks)
    pairs = [(r, r if r in present else source_of.get(r)) for r in wanted]
    copies = pl.DataFrame(
        {"rank": [s for _, s in pairs], "to": [r for r, _ in pairs]},
        schema={"rank": pl.Int32, "to": pl.Int32},
    ).drop_nulls()

    def copied(frame: pl.DataFrame) -> pl.DataFrame:
        joined = copies.join(frame, on="rank", how="inner", maintain_order="left_right")
        return joined.with_columns(rank=pl.col("to")).select(frame.columns)

    return Trace(copied(trace.spans), copied(trace.samples), trace.meta, trace.provenance)
