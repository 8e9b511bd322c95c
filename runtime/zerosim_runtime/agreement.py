"""What a rank says it has issued since its last step ended, and where two ranks do not say the same."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import combinations, zip_longest

import orjson

from zerosim.kinds import PREFIX, Kind

Entry = tuple[str, str, int]
"""A collective: its kind, its name, and the elements of the full tensor."""


@dataclass(slots=True)
class Queue:
    """What one queue of a rank has issued since the step began.

    `first`: the sequence number of the first of `entries`. `digest` is of everything ever issued.
    `known`: which collective has ever followed which, and all ranks agreed.
    """

    first: int = 0
    entries: list[Entry] = field(default_factory=list)
    digest: bytes = b""
    last: Entry | None = None
    known: set[tuple[Entry | None, Entry]] = field(default_factory=set)

    def add(self, entry: Entry) -> bool:
        """Note what is about to be issued; whether it has never followed what came before."""
        self.entries.append(entry)
        word = "\0".join(map(str, entry)).encode()
        self.digest = hashlib.blake2b(self.digest + word, digest_size=8).digest()
        pair, self.last = (self.last, entry), entry
        new = pair not in self.known
        self.known.add(pair)
        return new

    def begin(self) -> None:
        """The step has ended, and all ranks agree."""
        self.first += len(self.entries)
        self.entries.clear()


@dataclass(frozen=True, slots=True)
class Said:
    """What a rank says: how many steps it has `settled`, and the queues of the one it is in.

    `ended`: it has issued all of that step.
    """

    rank: int
    settled: int
    ended: bool
    queues: dict[str, tuple[int, list[Entry]]]

    def last(self, queue: str) -> str:
        """The last collective of a queue that it has issued in this step, for a sentence."""
        first, entries = self.queues.get(queue, (0, []))
        if not entries:
            return "nothing in this step"
        return f"{_named(entries[-1], None)} (seq {first + len(entries) - 1} of queue '{queue}')"

    def reached(self, queue: str) -> int:
        """How many collectives of a queue it has issued."""
        first, entries = self.queues.get(queue, (0, []))
        return first + len(entries)


def say(rank: int, settled: int, queues: dict[str, Queue], *, ended: bool) -> bytes:
    """What a rank says, for others to read."""
    content = {name: (queue.first, list(queue.entries)) for name, queue in queues.items()}
    return orjson.dumps([rank, settled, ended, content])


def hear(content: bytes) -> Said:
    """What another rank says."""
    rank, settled, ended, queues = orjson.loads(content)
    return Said(
        rank,
        settled,
        ended,
        {
            name: (first, [(str(k), str(n), int(e)) for k, n, e in entries])
            for name, (first, entries) in queues.items()
        },
    )


def apart(every: Iterable[Said]) -> str | None:
    """The first collective that two ranks took for different ones, in one clause.

    Only ranks in the same step can be compared. What a rank has not issued is apart once it has ended.
    """
    for one, other in combinations(every, 2):
        if one.settled == other.settled and (found := _apart(one, other)) is not None:
            return found
    return None


def _apart(one: Said, other: Said) -> str | None:
    for queue in sorted(one.queues.keys() & other.queues.keys()):
        (first, mine), (begun, theirs) = one.queues[queue], other.queues[queue]
        for i, (a, b) in enumerate(zip_longest(mine, theirs)):
            missing = (a is None and one.ended) or (b is None and other.ended)
            if first == begun and a != b and (missing or (a and b)):
                return (
                    f"rank {one.rank} issued {_named(a, b)} and rank {other.rank} {_named(b, a)} "
                    f"as seq {first + i} of queue '{queue}'"
                )
    return None


def _named(entry: Entry | None, beside: Entry | None) -> str:
    if entry is None:
        return "nothing"
    kind, name, elements = entry
    short = name if name.startswith(PREFIX.get(Kind(kind), "")) else f"{kind} {name}"
    if beside is not None and elements != beside[2]:
        return f"'{short}' of {elements} elements"
    return f"'{short}'"
