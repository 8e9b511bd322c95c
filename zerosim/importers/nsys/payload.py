"""What NCCL puts into its NVTX ranges: communicator, size and rank, where an export holds payloads."""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from zerosim.importers.counts import count
from zerosim.importers.kineto.events import Slice, Thread
from zerosim.importers.kineto.facts import PER_RANK, kind_of
from zerosim.importers.nsys.database import Database
from zerosim.kinds import Kind
from zerosim.trace import MAX_RANKS, Group

# Note [NVTX payload]: 32 bytes come first (domain, reserved, schema, reserved as uint32; sizes of the
# payload and of both as uint64), then fields at the offsets of NVTX_PAYLOAD_SCHEMA_ENTRIES.
_HEADER: Final = struct.Struct("<IIIIQQ")
_FIELDS: Final = {
    "NCCL communicator ID": struct.Struct("<Q"),
    "Message size [bytes]": struct.Struct("<Q"),
    "No. of ranks": struct.Struct("<i"),
    "Rank": struct.Struct("<i"),
}
_GROUP_END: Final = "ncclGroupEnd"

Schemas = Mapping[tuple[int, int], Mapping[str, int]]
"""Offsets of known fields, by domain and schema."""


class Sizes(NamedTuple):
    """What is known of a collective: its communicator, and bytes of the full tensor."""

    group: str
    nbytes: int | None


@dataclass(frozen=True, slots=True)
class Calls:
    """NCCL's calls of one process: collectives and ends of groups by thread, its communicators.

    `groups` holds those whose size is known, `ranks` this process's rank in each of them.
    """

    collectives: Mapping[Thread, list[Slice]]
    ends: Mapping[Thread, list[Slice]]
    groups: Mapping[str, Group]
    ranks: Mapping[str, int]

    def sizes(self, thread: Thread, moment: int, kind: Kind) -> Sizes | None:
        """What the one call says that launched a kernel; None if none did, or several together."""
        calls = self.collectives.get(thread, [])
        after = bisect_right(calls, moment, key=lambda c: c.start)
        if after and calls[after - 1].end >= moment:
            return self._told(calls[after - 1], kind)
        # Within a group of calls the last of them launches all: that says who only if it was alone.
        ends = self.ends.get(thread, [])
        place = bisect_right(ends, moment, key=lambda e: e.start) - 1
        if place < 0 or ends[place].end < moment:
            return None
        since = ends[place - 1].end if place else 0
        before = bisect_left(calls, since, key=lambda c: c.start)
        return self._told(calls[before], kind) if after - before == 1 else None

    def _told(self, call: Slice, kind: Kind) -> Sizes | None:
        group, told = call.args.get("NCCL communicator ID"), call.args.get("Message size [bytes]")
        if group is None or kind_of(call.name) is not kind:
            return None
        name = f"{group:#x}"
        if kind in PER_RANK and told is not None:
            told = told * self.groups[name].size if name in self.groups else None
        return Sizes(name, count(told))

    @property
    def rank(self) -> int | None:
        """The rank in the biggest communicator, which is the run's; None if none was made."""
        if not self.ranks:
            return None
        return self.ranks[max(self.ranks, key=lambda name: self.groups[name].size)]


def read_schemas(database: Database) -> Schemas:
    """Where known fields lie in the payloads of `database`."""
    schemas: dict[tuple[int, int], dict[str, int]] = defaultdict(dict)
    columns = ("domainId", "schemaId", "name", "offset")
    for domain, schema, name, offset in database.rows("NVTX_PAYLOAD_SCHEMA_ENTRIES", columns):
        if name in _FIELDS and isinstance(offset, int | None):
            schemas[domain, schema][name] = offset or 0
    return schemas


def unpack(payload: object, schemas: Schemas) -> dict[str, Any]:
    """The known fields of a payload, none if it is no payload; see Note [NVTX payload]."""
    if not isinstance(payload, bytes) or len(payload) < _HEADER.size or not schemas:
        return {}
    domain, _, schema, _, size, whole = _HEADER.unpack_from(payload)
    if whole != len(payload) or size != whole - _HEADER.size:
        return {}
    found = {}
    for name, offset in schemas.get((domain, schema), {}).items():
        field = _FIELDS[name]
        if 0 <= offset <= size - field.size:
            found[name] = field.unpack_from(payload, _HEADER.size + offset)[0]
    return found


def sort_calls(marks: Iterable[Slice]) -> Calls:
    """NCCL's calls among the marks of one process."""
    collectives: dict[Thread, list[Slice]] = defaultdict(list)
    ends: dict[Thread, list[Slice]] = defaultdict(list)
    groups: dict[str, Group] = {}
    ranks: dict[str, int] = {}
    for mark in sorted(marks, key=lambda m: m.start):
        if mark.name == _GROUP_END:
            ends[mark.thread].append(mark)
        elif "Message size [bytes]" in mark.args:
            collectives[mark.thread].append(mark)
        size, rank = mark.args.get("No. of ranks", 0), mark.args.get("Rank", -1)
        if 0 <= rank < size <= MAX_RANKS and "NCCL communicator ID" in mark.args:
            name = f"{mark.args['NCCL communicator ID']:#x}"
            groups[name], ranks[name] = Group(name, size), rank
    return Calls(collectives, ends, groups, ranks)
