"""Chrome JSON that reads like a real Kineto run: one process a rank, one thread a stream."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Final

import orjson

from zerosim import __version__
from zerosim.disk import whole_directory, whole_file
from zerosim.exporters.chrome.clock import origin_of
from zerosim.exporters.chrome.events import rank_events
from zerosim.exporters.lanes import refuse_empty
from zerosim.importers.exported import FORMAT, KEY
from zerosim.trace import Group, Trace

_SINGLE: Final = (".json", ".json.gz")
_FIRST_CORRELATION: Final = 1_000_001
"""Unique in the run, so that files of ranks can be merged. As large as real ones: HTA keeps the column
as narrow as it can, and then writes places of events into it."""
_FASTEST: Final = 3
"""Of gzip's levels, the one beyond which a trace hardly gets smaller."""


def write(trace: Trace, path: Path) -> None:
    """All ranks in one file where the name ends in `.json` or `.json.gz`, else a directory of them.

    Raises InputError if no rank did anything.
    """
    refuse_empty(trace)
    if path.name.endswith(_SINGLE):
        with whole_file(path) as file:
            _write_file(file, trace, trace.ranks, zipped=path.suffix == ".gz")
        return
    with whole_directory(path) as directory:
        for rank in trace.ranks:
            with whole_file(directory / f"rank{rank}.pt.trace.json.gz") as file:
                _write_file(file, trace, (rank,), zipped=True)


def _write_file(file: BinaryIO, trace: Trace, ranks: Sequence[int], *, zipped: bool) -> None:
    if not zipped:
        _write_events(file, trace, ranks)
        return
    with gzip.GzipFile(
        fileobj=file, mode="wb", compresslevel=_FASTEST, filename="", mtime=0
    ) as out:
        _write_events(out, trace, ranks)


def _write_events(file: BinaryIO | gzip.GzipFile, trace: Trace, ranks: Sequence[int]) -> None:
    origin = origin_of(trace)
    # json, not orjson: HTA finds the rank by its own pattern, which wants a space after the colon.
    for key, value in _header(trace, ranks, origin).items():
        head = "{" if key == "schemaVersion" else ""
        file.write(f"{head}{json.dumps(key)}: {json.dumps(value)},\n".encode())
    file.write(b'"traceEvents": [\n')
    separator = b""
    for event in _events(trace, ranks, origin):
        file.write(separator + orjson.dumps(event))
        separator = b",\n"
    file.write(b"\n]}\n")


def _events(trace: Trace, ranks: Sequence[int], origin: int) -> Iterator[dict[str, Any]]:
    correlation = _FIRST_CORRELATION
    for rank in ranks if len(ranks) > 1 else trace.ranks:
        height = int((trace.spans["rank"] == rank).sum())
        if rank in ranks:
            yield from rank_events(trace, rank, origin, correlation)
        correlation += height


def _header(trace: Trace, ranks: Sequence[int], origin: int) -> dict[str, Any]:
    meta = trace.meta
    rows = trace.spans["rank"].is_in(ranks).sum(), trace.samples["rank"].is_in(ranks).sum()
    whose = {"rank": ranks[0]} if len(ranks) == 1 else {}
    return {
        "schemaVersion": 1,
        KEY: {
            "format": FORMAT,
            "version": __version__,
            "origin_ns": origin,
            "aligned": meta.clock.aligned,
            "spans": rows[0],
            "samples": rows[1],
        },
        "deviceProperties": [{"id": 0, "name": meta.device}] if meta.device else [],
        "distributedInfo": {
            "backend": "nccl",
            **whose,
            **({"world_size": meta.world_size} if meta.world_size else {}),
            "pg_count": len(meta.groups),
            "pg_config": [_group(group) for group in meta.groups],
        },
        "traceName": meta.name,
        "displayTimeUnit": "ms",
        "baseTimeNanoseconds": max(0, origin),
    }


def _group(group: Group) -> dict[str, Any]:
    members = {} if group.ranks is None else {"ranks": list(group.ranks)}
    return {"pg_name": group.name, "pg_desc": group.name, "pg_size": group.size, **members}
