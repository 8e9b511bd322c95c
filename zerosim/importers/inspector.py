"""NCCL Inspector logs: one JSON object an operation and communicator, with how long its kernel took."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any, Final

from zerosim.errors import TraceFileError
from zerosim.importers.choice import Choice
from zerosim.importers.content import Content, first_byte
from zerosim.importers.counts import count
from zerosim.importers.json_lines import Faults, plain, read_records, section
from zerosim.importers.kineto.facts import PER_RANK, kind_of
from zerosim.importers.kineto.times import nanoseconds
from zerosim.importers.operations import Clock, Operation, by_rank, recordings
from zerosim.importers.recording import Recording
from zerosim.kinds import Kind
from zerosim.trace import MAX_RANKS, Flag

_HEADERS: Final = frozenset({"header", "metadata", "dump_stats"})
_MEASURED: Final = ("coll_perf", "p2p_perf")
_NEAR: Final = Decimal("0.05")
_LONGEST_NS: Final = 2**47
_LATEST_NS: Final = 2**62
_LEFT_OUT: Final = (
    "NCCL Inspector leaves out small messages (below 8192 bytes unless told otherwise), operations "
    "that the GPU did not time, and all but the last 1024"
)
_UNKNOWN: Final = (
    _LEFT_OUT,
    "NCCL Inspector tells neither dtypes nor what was computed beside",
)
_NO_TIMES: Final = (
    "this NCCL Inspector log says how long operations took, not when they ran: they are laid one after "
    "another, and ranks cannot be compared in time"
)


def sniff(raw: bytes) -> bool:
    """Whether `raw` holds records of operations as NCCL Inspector writes them."""
    head = raw[: 2**16]
    return first_byte(head) == b"{" and (b'"coll_perf"' in head or b'"p2p_perf"' in head)


def parse(content: Content, choice: Choice) -> tuple[Recording, ...]:
    """A recording for each rank in the log. Raises TraceFileError for a log that cannot be read."""
    del choice
    faults = Faults()
    read = _read(content, faults)
    if not read:
        raise TraceFileError(f"'{content.path}' has no operation that can be read: record it again")
    timed = all(op.start_ns for op, _, _ in read)
    if timed:
        parts = by_rank([op for op, _, _ in read])
    else:
        lengths = {id(op): (took, dumped) for op, took, dumped in read}
        parts = [
            _laid(ops, [lengths[id(op)] for op in ops]) for ops in by_rank([r[0] for r in read])
        ]
    unknown = _UNKNOWN if timed else (*_UNKNOWN, _NO_TIMES)
    clock: Clock = "epoch" if timed else "none"
    return recordings(content, parts, faults, clock=clock, unknown=unknown)


def _read(content: Content, faults: Faults) -> list[tuple[Operation, int | None, int]]:
    """Each operation, how long it took, and when the log was written."""
    ops = []
    header: dict[str, Any] = {}
    metadata: dict[str, Any] = {}
    for record in read_records(content, faults):
        # Since 4.3 the header stands in a record of its own, before those that it is of.
        told = {**record, **section(record, "dump_stats")}
        header = section(told, "header") if "header" in told else header
        metadata = section(told, "metadata") if "metadata" in told else metadata
        if not record.keys() <= _HEADERS and not any(section(record, key) for key in _MEASURED):
            faults.leave_out(content, None, "a record without an operation: left out")
        dumped = max(0, nanoseconds(metadata.get("dump_timestamp_us")) or 0)
        for prefix in ("coll", "p2p"):
            measured = section(record, f"{prefix}_perf")
            if measured:
                took = nanoseconds(measured.get(f"{prefix}_exec_time_us"))
                known = took if took is not None and 0 < took < _LONGEST_NS else None
                ops.append((_op(header, metadata, measured, prefix), known, dumped))
    return ops


def _op(
    header: dict[str, Any], metadata: dict[str, Any], measured: dict[str, Any], prefix: str
) -> Operation:
    name = plain(measured.get(prefix, "operation"))
    kind = Kind.P2P if prefix == "p2p" else kind_of(name)
    size = count(header.get("n_ranks"), MAX_RANKS + 1)
    start, end = _ran(section(measured, "event_trace_ts"), prefix) or (0, 0)
    return Operation(
        process=(plain(metadata.get("hostname", "")), plain(metadata.get("pid", ""))),
        group=plain(header.get("comm_name") or header.get("id", "")),
        size=size,
        rank=count(header.get("rank"), MAX_RANKS),
        kind=kind,
        name=name,
        sequence=None if kind is Kind.P2P else count(measured.get(f"{prefix}_sn")),
        nbytes=_nbytes(measured, prefix, kind, size),
        start_ns=start,
        end_ns=end,
    )


def _nbytes(measured: dict[str, Any], prefix: str, kind: Kind, size: int | None) -> int | None:
    """Bytes of the full tensor; the bandwidth beside them says whether they are all, or one rank's."""
    told = count(measured.get(f"{prefix}_msg_size_bytes"))
    if told is None or kind not in PER_RANK:
        return told
    took, rate = measured.get(f"{prefix}_exec_time_us"), measured.get(f"{prefix}_algobw_gbs")
    if isinstance(took, int | Decimal) and isinstance(rate, int | Decimal):
        whole = 1000 * Decimal(rate) * Decimal(took)
        if abs(whole - told) <= _NEAR * told:
            return told
    return None if size is None else count(told * size)


def _ran(trace: dict[str, Any], prefix: str) -> tuple[int, int] | None:
    """When the kernels of an operation ran, else the operation; ns since the epoch."""
    kernels = trace.get("kernel_events")
    channels = [k for k in kernels if isinstance(k, dict)] if isinstance(kernels, list) else []
    starts = [nanoseconds(k.get("kernel_start_ts")) for k in channels]
    stops = [nanoseconds(k.get("kernel_stop_ts")) for k in channels]
    begin = min((s for s in starts if s), default=nanoseconds(trace.get(f"{prefix}_start_ts")))
    end = max((s for s in stops if s), default=nanoseconds(trace.get(f"{prefix}_stop_ts")))
    return (begin, end) if begin and end and 0 < begin <= end else None


def _laid(ops: Sequence[Operation], lengths: Sequence[tuple[int | None, int]]) -> list[Operation]:
    """The operations one after another, none before it could have begun."""
    laid, cursor = [], 0
    for op, (took, dumped) in zip(ops, lengths, strict=True):
        length = took or 0
        start = min(max(cursor, dumped - length), _LATEST_NS)
        cursor = start + length
        flags = 0 if took else int(Flag.UNTIMED)
        laid.append(replace(op, start_ns=start, end_ns=cursor, flags=flags))
    return laid
