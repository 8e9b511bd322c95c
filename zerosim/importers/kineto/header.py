"""What a Kineto file says of itself: rank, world, process groups, device, clock."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from zerosim.importers.counts import count_in_text
from zerosim.importers.kineto.events import Slice
from zerosim.importers.kineto.facts import ranks_of
from zerosim.trace import MAX_RANKS, Group


def base_ns(header: dict[str, Any]) -> int:
    """What has to be added to the file's times to count from the epoch (0 if it says nothing)."""
    base = header.get("baseTimeNanoseconds")
    return base if type(base) is int and 0 <= base < 2**61 else 0


def rank(header: dict[str, Any]) -> int | None:
    """The rank the file says it is of."""
    return count_in_text(_distributed(header).get("rank"), MAX_RANKS)


def world_size(header: dict[str, Any]) -> int | None:
    """How many ranks the file says there are."""
    return count_in_text(_distributed(header).get("world_size"), MAX_RANKS + 1) or None


def groups(header: dict[str, Any]) -> tuple[Group, ...]:
    """The process groups the file lists."""
    listed = _distributed(header).get("pg_config")
    entries = listed if isinstance(listed, list) else []
    found = [_group(entry) for entry in entries if isinstance(entry, dict)]
    return tuple(group for group in found if group is not None)


def device_of(work: Iterable[Slice]) -> int | None:
    """The GPU that most of `work` ran on."""
    seen = Counter(d for piece in work if type(d := piece.args.get("device")) is int)
    return seen.most_common(1)[0][0] if seen else None


def device_name(header: dict[str, Any], device: int | None) -> str | None:
    """The name of GPU `device`; of one that is not listed, the name that all others bear."""
    properties = header.get("deviceProperties")
    listed = [e for e in properties if isinstance(e, dict)] if isinstance(properties, list) else []
    if device is None:
        return None
    names = {
        number: name
        for entry in listed
        if type(number := entry.get("id")) is int and isinstance(name := entry.get("name"), str)
    }
    others = set(names.values())
    return names.get(device, others.pop() if len(others) == 1 else None)


def _distributed(header: dict[str, Any]) -> dict[str, Any]:
    found = header.get("distributedInfo")
    return found if isinstance(found, dict) else {}


def _group(entry: dict[str, Any]) -> Group | None:
    ranks = ranks_of(entry.get("ranks"))
    size = count_in_text(entry.get("pg_size"), MAX_RANKS + 1) or (len(ranks) if ranks else None)
    if size is None:
        return None
    return Group(
        str(entry.get("pg_name", "")), size, ranks if ranks and len(ranks) == size else None
    )
