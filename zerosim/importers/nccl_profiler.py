"""What NCCL's profiler plugins write: Chrome events of the example plugin, or a record a line."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Any, Final

from zerosim.errors import TraceFileError
from zerosim.importers.choice import Choice
from zerosim.importers.content import Content, first_byte
from zerosim.importers.counts import count
from zerosim.importers.json_lines import Faults, plain, read_records, section
from zerosim.importers.kineto.facts import PER_RANK, Facts, dtype_of, kind_of
from zerosim.importers.kineto.times import nanoseconds
from zerosim.importers.operations import Operation, by_rank, recordings
from zerosim.importers.recording import Recording
from zerosim.kinds import Kind
from zerosim.trace import MAX_RANKS, Flag

_CHROME: Final = re.compile(
    rb'"cat"\s*:\s*"(?:GROUP|COLL|P2P|PROXY|NET|GPU|KERNEL_LAUNCH|(?:GROUP|COLL|P2P)_API)"'
)
_LINES: Final = re.compile(rb'"type"\s*:\s*"(?:ProfilerLifecycle|ncclProfile\w+)"')
_ASYNC: Final = re.compile(rb'"ph"\s*:\s*"[be]"')
_WORK: Final = ("COLL", "P2P", "ncclProfileColl", "ncclProfileP2p")
_API: Final = ("ncclProfileCollApi", "ncclProfileP2pApi")
_CHANNEL: Final = "ncclProfileKernelCh"
_SORTS: Final = frozenset(
    {"GROUP", "PROXY", "NET", "GPU", "KERNEL_LAUNCH", "GROUP_API", "COLL_API", "P2P_API"}
)
"""Categories of the example plugin that say nothing of when an operation ran."""
_UNKNOWN: Final = (
    "NCCL's profiler plugins tell nothing of what was computed beside",
    "NCCL's profiler plugins count from a start of each process's own: processes cannot be compared",
)


@dataclass(slots=True)
class _Reading:
    """What is known while a log is read: sizes of communicators, operations by address or id."""

    sizes: dict[str, int] = field(default_factory=dict)
    calls: dict[Any, int | None] = field(default_factory=dict)
    places: dict[Any, int] = field(default_factory=dict)
    operations: list[Operation] = field(default_factory=list)


def sniff(raw: bytes) -> bool:
    """Whether `raw` begins like a log of a profiler plugin of NCCL."""
    head = raw[: 2**16]
    if first_byte(head) == b"[":
        return bool(_CHROME.search(head) and _ASYNC.search(head))
    return first_byte(head) == b"{" and bool(_LINES.search(head))


def parse(content: Content, choice: Choice) -> tuple[Recording, ...]:
    """A recording for each rank in the log. Raises TraceFileError for a log that cannot be read."""
    del choice
    faults = Faults()
    reading = _Reading()
    for record in read_records(content, faults):
        understood = _chrome(reading, record) if "ph" in record else _line(reading, record)
        if not understood:
            faults.leave_out(content, None, "a record of unknown sort, time or operation: left out")
    if not reading.operations:
        raise TraceFileError(
            f"'{content.path}' has no collective: set NCCL_PROFILE_EVENT_MASK to 4095 and record again"
        )
    ops = [_sized(op, reading.sizes.get(op.group)) for op in reading.operations]
    return recordings(content, by_rank(ops), faults, clock="process", unknown=_UNKNOWN)


def _chrome(reading: _Reading, event: dict[str, Any]) -> bool:
    """Take an event in; False if it cannot be told what it is, or of what."""
    sort, moment = event.get("cat"), nanoseconds(event.get("ts"))
    if sort not in _WORK:
        return event.get("ph") == "M" or (isinstance(sort, str) and sort in _SORTS)
    if moment is None:
        return False
    key = (sort, str(event.get("id")), str(event.get("pid")))
    if event.get("ph") == "b":
        args = section(event, "args")
        reading.places[key] = len(reading.operations)
        reading.operations.append(
            _begun(
                process=plain(event.get("pid", "")),
                name=plain(event.get("name", "operation")),
                group=plain(args.get("CommHash", "")),
                moment=moment,
                rank=args.get("Rank"),
                sequence=args.get("SeqNum"),
                elements=args.get("Count"),
                dtype=args.get("Datatype"),
            )
        )
        return True
    return event.get("ph") == "e" and _ended(reading, reading.places.pop(key, None), None, moment)


def _line(reading: _Reading, record: dict[str, Any]) -> bool:
    """Take a record in; False if it cannot be told what it is, or of what."""
    sort, details = record.get("type"), section(record, "details")
    start = nanoseconds(section(record, "start").get("ts"))
    stop = nanoseconds(section(record, "stop").get("ts"))
    group, size = plain(record.get("commId", "")), count(details.get("nranks"), MAX_RANKS + 1)
    address, parent = str(record.get("eventAddr")), str(record.get("parentObj"))
    if size:
        reading.sizes[group] = size
    if sort is None:  # single moments have a name, not a type, and no start
        return "start" not in record and "ts" in record
    if start is None:
        return isinstance(sort, str) and sort not in (*_API, *_WORK, _CHANNEL)
    if sort in _API:
        reading.calls[address] = start
    elif sort in _WORK:
        reading.places[address] = len(reading.operations)
        operation = _begun(
            process=plain(section(record, "start").get("pid", "")),
            name=plain(details.get("func", "operation")),
            group=group,
            moment=start,
            rank=record.get("rank"),
            sequence=details.get("seq"),
            elements=details.get("count"),
            dtype=details.get("dtype"),
        )
        reading.operations.append(replace(operation, issued_ns=reading.calls.get(parent)))
    elif sort == _CHANNEL:
        return stop is not None and _ended(reading, reading.places.get(parent), start, stop)
    return isinstance(sort, str)


def _begun(
    *,
    process: str,
    name: str,
    group: str,
    moment: int,
    rank: object,
    sequence: object,
    elements: object,
    dtype: object,
) -> Operation:
    """An operation that has not run yet as far as is known; `elements` as NCCL counts them."""
    kind = kind_of(name)
    return Operation(
        process=("", process),
        group=group,
        size=None,
        rank=count(rank, MAX_RANKS),
        kind=kind,
        name=name,
        sequence=None if kind is Kind.P2P else count(sequence),
        elements=count(elements),
        dtype=_dtype(dtype),
        start_ns=moment,
        end_ns=moment,
        flags=int(Flag.UNTIMED),
    )


def _ended(reading: _Reading, place: int | None, start: int | None, stop: int) -> bool:
    """Note that the operation at `place`, or one channel of it, ran from `start` until `stop`.

    False if there is none, or it would have ended before it began.
    """
    if place is None:
        return False
    op = reading.operations[place]
    begin = op.start_ns if start is None else start
    if op.flags:
        known = replace(op, start_ns=begin, end_ns=stop, flags=0)
    else:
        known = replace(op, start_ns=min(op.start_ns, begin), end_ns=max(op.end_ns, stop))
    if known.start_ns > known.end_ns:
        return False
    reading.operations[place] = known
    return True


def _sized(op: Operation, size: int | None) -> Operation:
    """`op` with the elements and bytes of its full tensor, of a communicator of `size`."""
    elements = op.elements
    if op.kind in PER_RANK:
        elements = None if elements is None or size is None else count(elements * size)
    nbytes = Facts(op.kind, elements=elements, dtype=op.dtype).nbytes
    return replace(op, size=size, elements=elements, nbytes=nbytes)


def _dtype(name: object) -> str | None:
    return dtype_of(plain(name).removeprefix("nccl").lower()) if isinstance(name, str) else None
