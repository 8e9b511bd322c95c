"""What a flight recorder dump says of its process: groups, what ended last in each, and whose it is."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from zerosim.importers.counts import count_in_text
from zerosim.importers.flight.calls import text
from zerosim.importers.kineto.facts import ranks_of
from zerosim.importers.recording import MAX_GROUPS, MAX_MEMBERS
from zerosim.trace import MAX_RANKS, Group

_LAST_NUMBER: Final = re.compile(r"(?<!\d)(\d{1,8})(?:\.[A-Za-z]\w*)*$")


def groups(dump: dict[str, Any], called: Sequence[str]) -> tuple[Group, ...]:
    """The process groups whose ranks the dump lists; `called`: the groups of its calls.

    Gloo lists its only group without a name, and calls it by number.
    """
    listed = dump.get("pg_config")
    if not isinstance(listed, dict) or len(listed) > MAX_GROUPS:
        return ()
    known: dict[str, tuple[int, ...] | None] = {}
    found, members = [], 0
    for key, entry in listed.items():
        written = entry.get("ranks") if isinstance(entry, dict) else None
        if isinstance(written, str):
            known.setdefault(written, _ranks(written))
            ranks = known[written]
        else:
            ranks = _ranks(written)
        members += len(ranks or ())
        if ranks and members <= MAX_MEMBERS:
            found.append(Group(text(key) or str(key), len(ranks), ranks))
    names = set(called)
    if len(found) == 1 and len(listed) == 1 and "" in listed and len(names) == 1:
        return (Group(names.pop(), found[0].size, found[0].ranks),)
    return tuple(found)


def completed(dump: dict[str, Any]) -> dict[str, int]:
    """By group id, the sequence number of the last call that ended, where that is known."""
    listed = dump.get("pg_status")
    found = {
        str(key): count_in_text(status.get("last_completed_collective"))
        for key, status in (listed.items() if isinstance(listed, dict) else ())
        if isinstance(status, dict)
    }
    return {key: last for key, last in found.items() if last is not None}


def rank_of(name: str, listed: Sequence[Group]) -> int | None:
    """The rank of the dump in file `name`: the number at its end, unless its groups say otherwise.

    A process lists the groups it is in, so its rank is a member of all of them.
    """
    match = _LAST_NUMBER.search(name)
    number = int(match[1]) if match else None
    members = [set(group.ranks) for group in listed if group.ranks]
    shared = set.intersection(*members) if members else set()
    if number is not None and (number in shared or not shared) and number < MAX_RANKS:
        return number
    return min(shared) if len(shared) == 1 else None


def _ranks(value: object) -> tuple[int, ...] | None:
    found = ranks_of(value)
    return found if found and len(set(found)) == len(found) else None
