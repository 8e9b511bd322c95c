"""Recordings: what an engine was observed to do, kept as JSON where the engine cannot be installed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import orjson

from zerosim.plan import Plan
from zerosim_runtime.equality.case import Case
from zerosim_runtime.equality.seen import Seen, row_from, row_to


@dataclass(frozen=True, slots=True)
class Recording:
    """What each rank of a case was seen to do, and under which versions of which packages."""

    case: Case
    versions: Mapping[str, str]
    seen: tuple[tuple[Seen, ...], ...]


@dataclass(frozen=True, slots=True)
class Replay:
    """Where a family's recordings are, and how to compare one: its case's plan, and its rows."""

    directory: Path
    plan_of: Callable[[Case], Plan]
    rows_of: Callable[[Case, Sequence[Seen]], list[Seen]]


def write_recording(recording: Recording, directory: Path) -> Path:
    """Write `<case>.json`: a line a micro-batch; ranks that saw the same are written once."""
    ranks = recording.seen
    kept = ranks[:1] if all(rank == ranks[0] for rank in ranks) else ranks
    rows = ",\n".join(f"[\n{_lines(rank)}\n]" for rank in kept)
    head = orjson.dumps({"case": asdict(recording.case), "versions": dict(recording.versions)})
    path = directory / f"{recording.case.name}.json"
    path.write_text(f'{head.decode()[:-1]},\n"seen": [{rows}]}}\n')
    return path


def read_recording(path: Path) -> Recording:
    """The recording that `write_recording` wrote."""
    record: dict[str, Any] = orjson.loads(path.read_bytes())
    case = Case(**record["case"])
    ranks = [tuple(row_from(row) for part in rank for row in part) for rank in record["seen"]]
    repeated = ranks * case.world_size if len(ranks) == 1 else ranks
    return Recording(case, record["versions"], tuple(repeated))


def _lines(rows: Sequence[Seen]) -> str:
    parts = groupby(rows, key=lambda row: (row.step, row.micro_batch))
    return ",\n".join(orjson.dumps([row_to(row) for row in part]).decode() for _, part in parts)
