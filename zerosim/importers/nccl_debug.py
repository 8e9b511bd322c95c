"""Logs of NCCL_DEBUG=INFO: who is in which communicator, and, with SUBSYS=COLL, what was called."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Final

from zerosim.importers.choice import Choice
from zerosim.importers.content import Content
from zerosim.importers.counts import count
from zerosim.importers.kineto.facts import kind_of
from zerosim.importers.recording import MAX_UNLISTED, Recording, refuse_many
from zerosim.importers.untimed import one_after_another
from zerosim.kinds import Kind
from zerosim.quality import MAX_PLACES, Place, Quality
from zerosim.trace import MAX_RANKS, Group
from zerosim.units import DTYPE_BYTES

_MARK: Final = re.compile(
    rb"(?<![\w.-])(?P<host>[\w.-]{1,255}):(?P<pid>\d{1,10}):\d{1,10} \[-?\d{1,4}\] NCCL INFO "
)
_INIT: Final = re.compile(rb"comm (0x[0-9a-f]{1,16}) rank (\d{1,8}) n[Rr]anks (\d{1,8}) ")
_CALL: Final = re.compile(
    rb"(?P<name>[A-Z]\w{1,30}): opCount (?P<op>[0-9a-f]{1,15}) sendbuff \S{1,20} recvbuff \S{1,20}"
    rb" (?:acc \S{1,20} )?count (?P<count>\d{1,18}) datatype (?P<dtype>\d{1,3}) op -?\d{1,9}"
    rb" root -?\d{1,9} comm (?P<comm>0x[0-9a-f]{1,16}) \[nranks=(?P<n>\d{1,8})\]"
)
_DTYPES: Final = (
    *("int8", "uint8", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64"),
    *("bfloat16", "float8_e4m3fn", "float8_e5m2"),
)
"""By NCCL's numbers."""
_WIDTHS: Final = {"uint32": 4, "uint64": 8, **DTYPE_BYTES}
_EACH: Final = (Kind.ALL_GATHER, Kind.REDUCE_SCATTER, Kind.ALL_TO_ALL, Kind.GATHER, Kind.SCATTER)
"""NCCL counts the part of one rank in these."""
_TELLING: Final = (b"opCount", b"sendbuff", b"recvbuff", b"datatype", b"[nranks=", b"Init COMPLETE")
"""A call or a communicator, whole or not, has one of these."""
_UNKNOWN: Final = (
    "when a collective ran and how long it took: the log says what was called, in which order",
    "steps, and whatever was computed",
)


@dataclass(slots=True)
class _Process:
    """What one process has said: its place in each communicator, and its calls."""

    comms: dict[bytes, tuple[int, int]] = field(default_factory=dict)
    rows: list[dict[str, Any]] = field(default_factory=list)
    events: int = 0
    places: list[Place] = field(default_factory=list)
    skipped: int = 0

    def place(self) -> tuple[int, int] | tuple[None, None]:
        """Rank and size in its largest communicator, which is the world."""
        return max(self.comms.values(), key=lambda c: c[1], default=(None, None))

    def missing(self) -> int:
        """How many calls are not there, by the numbers of those that are, though no torn line is one."""
        last: dict[bytes, int] = {}
        absent = 0
        for row in self.rows:
            before = last.get(row["comm"], row["sequence"])
            absent += max(0, row["sequence"] - before - 1)
            last[row["comm"]] = row["sequence"]
        return max(0, absent - self.skipped)

    def groups(self) -> dict[bytes, Group]:
        """Communicators have no name; all ranks make them in one order, so their numbers are."""
        _, world = self.place()
        everyone = tuple(range(world)) if world and world <= MAX_UNLISTED else None
        return {
            comm: Group(f"comm {i} of {n}", n, everyone if n == world else None)
            for i, (comm, (_, n)) in enumerate(self.comms.items())
        }


def sniff(raw: bytes) -> bool:
    """Whether `raw` has lines of NCCL_DEBUG=INFO."""
    return b" NCCL INFO " in raw and b"\0" not in raw[:4096] and _MARK.search(raw) is not None


def parse(content: Content, choice: Choice) -> tuple[Recording, ...]:
    """A recording for each process that logged. Lines of several ranks may be torn into each other.

    Raises TraceFileError for more processes than any log has.
    """
    del choice
    raw, name = content.raw, content.path.name
    processes: dict[tuple[bytes, bytes], _Process] = {}
    found = next(marks := _MARK.finditer(raw), None)
    if found:
        # What stands before the first mark has lost its own, and is nobody's.
        process = processes.setdefault((found["host"], found["pid"]), _Process())
        _note_torn(raw[: found.start()], 0, process, Place(name, 0, "a call that is not whole"))
    while found is not None:
        following = next(marks, None)
        message = raw[found.end() : following.start() if following else len(raw)]
        process = processes.setdefault((found["host"], found["pid"]), _Process())
        _read(message, process, Place(name, found.start(), "a call that is not whole"))
        found = following
    refuse_many(content.path, len(processes))
    ordered = sorted(processes.values(), key=lambda p: (p.place()[0] is None, p.place()[0] or 0))
    silent = not any(p.rows for p in ordered)
    return tuple(_recording(content, p, first=not i, silent=silent) for i, p in enumerate(ordered))


def _read(message: bytes, process: _Process, place: Place) -> None:
    """One message and, where its beginning was torn off, what follows it up to the next one."""
    line, whole = message.split(b"\n", 1)[0], 0
    process.events += 1
    if (init := _INIT.match(line)) is not None and line.rstrip().endswith(b"COMPLETE"):
        rank, size = int(init[2]), int(init[3])
        if rank < size <= MAX_RANKS:
            process.comms.setdefault(init[1], (rank, size))
            whole = 1
    elif (call := _CALL.match(line)) is not None:
        process.rows.append(_row(call))
        whole = 1
    _note_torn(message, whole, process, place)


def _note_torn(text: bytes, whole: int, process: _Process, place: Place) -> None:
    """Count the calls that `text` tells of beside the `whole` ones that were read."""
    torn = max(text.count(word) for word in _TELLING) - whole
    if torn > 0:
        process.skipped += torn
        process.places.append(place)


def _row(call: re.Match[bytes]) -> dict[str, Any]:
    kind, number = kind_of(call["name"].decode()), int(call["dtype"])
    dtype = _DTYPES[number] if number < len(_DTYPES) else None
    elements = count(int(call["count"]) * (int(call["n"]) if kind in _EACH else 1))
    width = _WIDTHS.get(dtype or "")
    return {
        "stream": "calls",
        "kind": kind.value,
        "name": call["name"].decode(),
        "comm": call["comm"],
        "elements": elements,
        "nbytes": None if elements is None or width is None else count(elements * width),
        "dtype": dtype,
        "sequence": int(call["op"], 16),
    }


def _recording(content: Content, process: _Process, *, first: bool, silent: bool) -> Recording:
    groups = process.groups()
    rank, world = process.place()
    rows = [
        row | {"group": g.name if (g := groups.get(row["comm"])) else None} for row in process.rows
    ]
    name, torn = content.path.name, process.skipped
    missing = process.missing()
    notes = (
        (first and silent, f"'{name}' tells of no call: log with NCCL_DEBUG_SUBSYS=INIT,COLL"),
        (torn, f"'{name}' has {torn} torn lines of rank {rank}: left out"),
        (missing, f"'{name}' lacks {missing} calls of rank {rank}, by the numbers of the others"),
    )
    said = (text for is_so, text in notes if is_so)
    unsized = sum(row["nbytes"] is None for row in rows)
    return Recording(
        source=name,
        rank=rank,
        world_size=world,
        spans=one_after_another(name, rows),
        groups=tuple(groups.values()),
        quality=Quality(
            events=process.events,
            skipped=torn,
            unsized=unsized,
            warnings=(*(content.warnings if first else ()), *said),
            places=tuple(process.places[:MAX_PLACES]),
            unknown=_UNKNOWN,
        ),
    )
