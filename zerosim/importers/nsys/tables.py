"""What the tables of an Nsight Systems export hold: GPU work, the calls that launched it, the marks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

import polars as pl

from zerosim.importers.kineto.events import Slice
from zerosim.importers.nsys.database import Database
from zerosim.importers.nsys.payload import read_schemas, unpack
from zerosim.trace import Flag

KERNELS: Final = "CUPTI_ACTIVITY_KIND_KERNEL"
COPIES: Final = "CUPTI_ACTIVITY_KIND_MEMCPY"
FILLS: Final = "CUPTI_ACTIVITY_KIND_MEMSET"
GRAPHS: Final = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
_WORK: Final = (
    (KERNELS, "demangledName"),
    (COPIES, "copyKind"),
    (FILLS, "value"),
    (GRAPHS, "graphId"),
)
"""Tables of GPU work, and in each the column from which a row gets its name."""

_LAUNCHES: Final = "CUPTI_ACTIVITY_KIND_RUNTIME"
_MARKS: Final = "NVTX_EVENTS"
_RANGES: Final = (59, 60)
"""Event types of marks that last: pushed and popped by a thread, started and ended by a process."""
_CHUNK: Final = 2**18
_LATEST_NS: Final = 2**61
_DIRECTIONS: Final[dict[int | None, str]] = {1: "HtoD", 2: "DtoH", 8: "DtoD", 9: "HtoH", 10: "PtoP"}
STEPS: Final = re.compile(
    r"(?P<word>ProfilerStep|(?:(?:global|train|training)[ _])?(?:step|iter|iteration))"
    r"\W{0,3}(?P<number>\d{1,9})$",
    re.IGNORECASE,
)
"""Marks that people put around a training step."""
_OPS: Final = re.compile(
    r"FSDP::|nccl:|nccl(?:AllGather|AllReduce|ReduceScatter|Broadcast|Reduce|AlltoAll|Send|Recv|GroupEnd|CommInit\w*)\b|Optimizer\.step"
)
_ADDED: Final = re.compile(r", (?:seq|op_id|sizes|input_op_ids) = ")
"""What torch.autograd.profiler.emit_nvtx writes behind a mark's own name."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """One file: `work` is a frame in order of issue, `marks` the ranges that say what it was for.

    Columns of `work`: pid, device, stream, table, name, start_ns, end_ns, nbytes, flags, issued_ns,
    thread (the last two null where the launch is unknown). Times count from the session's start.
    """

    work: pl.DataFrame
    marks: tuple[Slice, ...]
    with_launches: frozenset[int]
    events: int
    skipped: int


def read_tables(database: Database) -> Recorded:
    """All that counts of `database`. Raises TraceFileError where it turns out to be damaged."""
    work = pl.concat(_work(database, table, name) for table, name in _WORK)
    launches, callers, n_calls = _launches(database, work)
    names = _names(database, work)
    marks, n_marks = _marks(database, names)
    joined = work.join(launches, on=["pid", "correlation"], how="left", maintain_order="left")
    timed = _timed(joined)
    sound = timed.filter(pl.col("start_ns").is_not_null() & pl.col("end_ns").is_not_null())
    return Recorded(
        work=_named(sound, names).sort(
            pl.col("issued_ns").is_not_null(), "issued_ns", "start_ns", maintain_order=True
        ),
        marks=marks,
        with_launches=callers,
        events=work.height + n_calls + n_marks,
        skipped=work.height - sound.height,
    )


def _is_mark(text: str) -> bool:
    """Whether a range of this name says what the work in it is for."""
    return bool(_OPS.match(text) or STEPS.match(text))


def _work(database: Database, table: str, name: str) -> pl.DataFrame:
    columns = ("globalPid", "deviceId", "streamId", "correlationId", "start", "end", "bytes", name)
    called = ("pid", "device", "stream", "correlation", "start_ns", "end_ns", "nbytes", "what")
    return _frame(database, database.version_of(table), columns, called).with_columns(
        pl.lit(table).alias("table"),
        pl.col("pid").fill_null(0).floordiv(2**24),
        pl.col("device").fill_null(0),
        pl.col("stream").fill_null(0),
    )


def _launches(database: Database, work: pl.DataFrame) -> tuple[pl.DataFrame, frozenset[int], int]:
    """The first call of each correlation in `work`; which processes have calls; how many were read."""
    wanted = work.select("pid", "correlation").unique()
    alone = work.height > 0 and wanted["pid"].unique().to_list() == [0]
    parts = [wanted.clear().with_columns(pl.lit(0).alias("issued_ns"), pl.lit(0).alias("thread"))]
    callers: set[int] = set()
    n_calls = 0
    columns = ("globalTid", "correlationId", "start")
    for part in _parts(
        database, database.version_of(_LAUNCHES), columns, ("thread", "correlation", "issued_ns")
    ):
        n_calls += part.height
        # Exports of long ago do not say the process of a kernel: then there is but one.
        pid = pl.lit(0, dtype=pl.Int64) if alone else pl.col("thread").fill_null(0).floordiv(2**24)
        calls = part.with_columns(pid.alias("pid"))
        callers.update(calls["pid"].unique().to_list())
        parts.append(
            calls.join(wanted, on=["pid", "correlation"], how="semi").select(parts[0].columns)
        )
    found = pl.concat(parts, how="vertical_relaxed").filter(
        pl.col("issued_ns").is_between(0, _LATEST_NS)
    )
    first = found.sort("issued_ns").unique(["pid", "correlation"], keep="first")
    return first, frozenset(callers), n_calls


def _names(database: Database, work: pl.DataFrame) -> dict[int, str]:
    """The texts that `work` or marks refer to; a file may hold millions of others."""
    kernels = work.filter(pl.col("table") == KERNELS)["what"]
    wanted = set(kernels.unique().to_list())
    return {
        number: text
        for number, text in database.rows("StringIds", ("id", "value"))
        if isinstance(text, str) and type(number) is int and (number in wanted or _is_mark(text))
    }


def _marks(database: Database, names: dict[int, str]) -> tuple[tuple[Slice, ...], int]:
    marks, n_marks = [], 0
    schemas = read_schemas(database)
    columns = ("eventType", "start", "end", "text", "textId", "globalTid", "binaryData")
    for sort, start, end, text, text_id, thread, payload in database.rows(_MARKS, columns):
        n_marks += 1
        name = text if isinstance(text, str) else names.get(text_id, "")
        if sort not in _RANGES or not _is_mark(name) or type(thread) is not int:
            continue
        if type(start) is int and type(end) is int and 0 <= start <= end < _LATEST_NS:
            plain = _ADDED.split(name, maxsplit=1)[0]
            told = unpack(payload, schemas)
            marks.append(Slice(start, end, plain, _MARKS, (thread >> 24, thread), told, 0))
    return tuple(marks), n_marks


def _timed(work: pl.DataFrame) -> pl.DataFrame:
    """With flags, and null times where they make no sense."""
    start, end = pl.col("start_ns"), pl.col("end_ns")
    untimed = (start == 0) & (end.is_null() | (end == 0))
    endless = ~untimed & (end.is_null() | (end == 0))
    flags = pl.when(untimed).then(int(Flag.UNTIMED)).when(endless).then(int(Flag.UNFINISHED))
    begin = (
        pl.when(untimed).then(pl.col("issued_ns")).when(start.is_between(0, _LATEST_NS)).then(start)
    )
    until = pl.when(untimed | endless).then(begin).when(end.is_between(start, _LATEST_NS)).then(end)
    return work.with_columns(
        begin.alias("start_ns"), until.alias("end_ns"), flags.otherwise(0).alias("flags")
    )


def _named(work: pl.DataFrame, names: dict[int, str]) -> pl.DataFrame:
    pairs = zip(work["table"], work["what"], strict=True)
    called = [_name(table, what, names) for table, what in pairs]
    return work.with_columns(pl.Series("name", called, dtype=pl.String))


def _name(table: str, what: int | None, names: dict[int, str]) -> str:
    if table == KERNELS:
        return names.get(what, "kernel") if what is not None else "kernel"
    if table == COPIES:
        return f"Memcpy {_DIRECTIONS.get(what, '')}".strip()
    return "Memset" if table == FILLS else "CUDA graph"


def _frame(
    database: Database, table: str, columns: Sequence[str], called: Sequence[str]
) -> pl.DataFrame:
    empty = pl.DataFrame(schema=dict.fromkeys(called, pl.Int64))
    return pl.concat([empty, *_parts(database, table, columns, called)])


def _parts(
    database: Database, table: str, columns: Sequence[str], called: Sequence[str]
) -> Iterable[pl.DataFrame]:
    """The rows of `table` in bunches, `columns` as `called`; what is no whole number is null."""
    rows = database.rows(table, columns)
    while part := list(islice(rows, _CHUNK)):
        values = zip(*part, strict=True)
        yield pl.DataFrame([_numbers(n, v) for n, v in zip(called, values, strict=True)])


def _numbers(name: str, values: Sequence[Any]) -> pl.Series:
    try:
        return pl.Series(name, values, dtype=pl.Int64, strict=True)
    except (TypeError, OverflowError, pl.exceptions.PolarsError):
        # SQLite keeps values of any type in any column.
        whole = [value if type(value) is int else None for value in values]
        return pl.Series(name, whole, dtype=pl.Int64)
