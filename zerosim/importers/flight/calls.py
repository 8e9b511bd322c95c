"""The entries of a flight recorder dump as calls: what, in which group, how big, ended or not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, Final

from zerosim.importers.counts import count_in_text, elements_of, total
from zerosim.importers.kineto.facts import Facts, dtype_of, kind_of
from zerosim.kinds import GATHERED, Kind
from zerosim.trace import Flag
from zerosim.units import DTYPE_BYTES, NS_PER_MS

_LONGEST_TEXT: Final = 256
_MOST_TENSORS: Final = 4096
_NOTHING: Final[tuple[None, None, None]] = (None, None, None)


@dataclass(frozen=True, slots=True)
class Call:
    """One entry. `number` orders them (null: unknown), `counted` is the sequence number of its group
    and sort (collective or point to point); times in ns since the epoch.
    """

    number: int | None
    name: str
    kind: Kind
    group: str
    group_id: str
    counted: int | None
    created_ns: int
    start_ns: int
    end_ns: int
    elements: int | None
    nbytes: int | None
    dtype: str | None
    flags: Flag


# Note [What has ended]: on NCCL the state of an entry changes only when a watchdog looks, on Gloo never.
# `retired` says that the work was taken off the watchdog's list; `pg_status` names the last one of the
# group that ended. That number counts collectives or point-to-point calls, so where a group has both it
# proves nothing.


def read_calls(
    entries: Sequence[Any], completed: Mapping[str, int]
) -> tuple[tuple[Call, ...], tuple[int, ...]]:
    """The calls in order of issue, and the places in `entries` of those that cannot be read.

    `completed`: by group id, the number of the last call that ended. See Note [What has ended].
    """
    mixed = _mixed(entries)
    completed = {group: last for group, last in completed.items() if group not in mixed}
    read = [_call(entry, completed) if isinstance(entry, dict) else None for entry in entries]
    calls = [call for call in read if call is not None]
    if all(call.number is not None for call in calls):
        calls.sort(key=lambda call: call.number or 0)
    return tuple(calls), tuple(i for i, call in enumerate(read) if call is None)


def sequences(calls: Sequence[Call]) -> list[int | None]:
    """The number of each collective within its group; None for those that share one, or have none."""
    tied = [(c.group, c.counted) if c.kind is not Kind.P2P else None for c in calls]
    seen = Counter(tied)
    return [key[1] if key is not None and seen[key] == 1 else None for key in tied]


def text(value: object) -> str | None:
    """A text, cut where it is absurdly long; None if it is none."""
    return value[:_LONGEST_TEXT] if isinstance(value, str) else None


def _mixed(entries: Sequence[Any]) -> set[str]:
    sorts: dict[str, set[bool]] = {}
    for entry in entries:
        if isinstance(entry, dict):
            sorts.setdefault(_group_id(entry), set()).add(entry.get("is_p2p") is True)
    return {group for group, seen in sorts.items() if len(seen) > 1}


def _group_id(entry: dict[str, Any]) -> str:
    found = count_in_text(entry.get("pg_id"))
    return "" if found is None else str(found)


def _call(entry: dict[str, Any], completed: Mapping[str, int]) -> Call | None:
    name, created = text(entry.get("profiling_name")), count_in_text(entry.get("time_created_ns"))
    if not name or not created:
        return None
    kind, group_id = kind_of(name), _group_id(entry)
    counted = _counted(entry, kind)
    elements, nbytes, dtype = _size(entry, kind, name)
    start, end, flags = _times(entry, created)
    if not _ended(entry, counted, completed.get(group_id)) and flags:
        flags |= Flag.UNFINISHED
    return Call(
        number=count_in_text(entry.get("record_id")),
        name=name,
        kind=kind,
        group=_group(entry, group_id),
        group_id=group_id,
        counted=counted,
        created_ns=created,
        start_ns=start,
        end_ns=end,
        elements=elements,
        nbytes=nbytes,
        dtype=dtype,
        flags=flags,
    )


def _group(entry: dict[str, Any], group_id: str) -> str:
    named = entry.get("process_group")
    first = text(named[0]) if isinstance(named, list | tuple) and named else None
    return f"group {group_id}" if first is None else first


def _counted(entry: dict[str, Any], kind: Kind) -> int | None:
    if kind is Kind.P2P:
        return count_in_text(entry.get("p2p_seq_id"))
    return count_in_text(entry.get("collective_seq_id", entry.get("seq_id")))


def _ended(entry: dict[str, Any], counted: int | None, last: int | None) -> bool:
    if entry.get("retired") is True or entry.get("state") == "completed":
        return True
    return counted is not None and last is not None and counted <= last


def _times(entry: dict[str, Any], created: int) -> tuple[int, int, Flag]:
    duration = entry.get("duration_ms")
    if not isinstance(duration, int | float) or isinstance(duration, bool):
        return created, created, Flag.UNTIMED
    if not isfinite(duration) or not 0 <= duration < 2**32:
        return created, created, Flag.UNTIMED
    length = round(duration * NS_PER_MS)
    seen = count_in_text(entry.get("time_discovered_completed_ns")) or 0
    start = max(created, seen - length)
    return start, start + length, Flag(0)


def _size(
    entry: dict[str, Any], kind: Kind, name: str
) -> tuple[int | None, int | None, str | None]:
    """Elements, bytes and dtype of the full tensor."""
    if kind is Kind.BARRIER:
        return _NOTHING
    side = "output" if kind in GATHERED or "recv" in name else "input"
    sizes, dtypes = entry.get(f"{side}_sizes"), entry.get(f"{side}_dtypes")
    if not isinstance(sizes, list | tuple) or not 0 < len(sizes) <= _MOST_TENSORS:
        return _NOTHING
    counts = [elements_of(shape) for shape in sizes]
    elements = total(counts)
    if elements is None:
        return _NOTHING
    named = dtypes[:_MOST_TENSORS] if isinstance(dtypes, list | tuple) else ()
    types = {dtype_of(text(dtype)) for dtype in named}
    if len(types) == 1:
        facts = Facts(kind, elements=elements, dtype=types.pop())
        return elements, facts.nbytes, facts.dtype
    widths = [DTYPE_BYTES.get(dtype_of(text(dtype)) or "") for dtype in named]
    if len(widths) != len(counts):
        return elements, None, None
    parts = zip(counts, widths, strict=True)
    return (
        elements,
        total([n * width if n is not None and width else None for n, width in parts]),
        None,
    )
