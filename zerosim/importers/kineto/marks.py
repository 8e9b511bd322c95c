"""The marks that FSDP, DDP and optimizers leave in a trace: which unit, which phase."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Final

from zerosim.importers.kineto.events import Slice
from zerosim.kinds import COMMUNICATION, PREFIX, Kind

ROOT: Final = "root"
"""The unit of FSDP's outermost module, whose own name is empty."""

_UNIT: Final = re.compile(r"FSDP::\w+(?: for)? ?\(?(?P<unit>[^()\s]*)\)?$")


def unit_of(name: str) -> str | None:
    """`blocks.0` of `FSDP::all_gather (blocks.0)`; None if `name` is no FSDP mark."""
    match = _UNIT.match(name)
    return (match["unit"] or ROOT) if match else None


def name_of(kind: Kind, unit: str | None, name: str) -> str:
    """What an op is called: `AG` and its unit where both are known (`AGblocks.0`), else its own `name`."""
    return f"{PREFIX[kind]}{unit}" if unit and kind in COMMUNICATION and kind in PREFIX else name


def phases(marks: Iterable[Slice], begin: str, end: str) -> Iterator[Slice]:
    """Slices named by unit, from each mark `begin` to the next mark `end` of the same unit."""
    opened: dict[str, list[Slice]] = defaultdict(list)
    for mark in sorted(marks, key=lambda m: m.start):
        verb = mark.name.split(" ", 1)[0]
        unit = unit_of(mark.name)
        if unit is None:
            continue
        if verb == begin:
            opened[unit].append(mark)
        elif verb == end and opened[unit]:
            first = opened[unit].pop(0)
            yield first._replace(end=mark.end, name=unit)
