"""Why a traced program failed, in one clause: which rank, in or after which collective."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from zerosim_runtime.disagreement import disagreement
from zerosim_runtime.exits import ending_of, errors_in, exits_in
from zerosim_runtime.places import Where
from zerosim_runtime.tracing.log import Log, read_logs

OUTPUT_FILE: Final = "program.log"


def describe(directory: Path, code: int, name: str) -> str:
    """Who failed first, how, and where it stood; `code` is the exit code of the whole program."""
    logs, output = read_logs(directory), _output(directory)
    if not logs:
        raised = errors_in(output)
        why = f" ({raised[-1]})" if raised else ""
        return f"'{name}' {ending_of(code)} before its process group was made{why}"
    if (apart := disagreement(directory, int(logs[0].header["world_size"]))) is not None:
        return apart.reason
    exits = exits_in(output)
    first = _first(logs, exits)
    if first.status == "failed":
        return f"rank {first.rank} failed ({first.message}) {_place(first)}"
    return f"rank {first.rank} {ending_of(exits.get(first.rank, code))} {_place(first)}"


def incomplete(where: Where) -> str | None:
    """What is missing of a run whose launcher nobody can ask; None: all ranks have finished."""
    logs = read_logs(where)
    world = int(logs[0].header["world_size"]) if logs else 0
    missing = [rank for rank in range(world) if rank not in {log.rank for log in logs}]
    if missing:
        return f"{len(missing)} of {world} ranks left no record, rank {missing[0]} among them"
    if all(log.status == "finished" for log in logs):
        return None
    if (apart := disagreement(where, world)) is not None:
        return apart.reason
    first = _first(logs, {})
    if first.status is None:
        return f"rank {first.rank} left no last word, {_place(first)}"
    if first.status == "failed":
        return f"rank {first.rank} failed ({first.message}) {_place(first)}"
    return f"rank {first.rank} was {first.status} {_place(first)}"


def _place(log: Log) -> str:
    """Where a rank stood: the first collective that it waits for, else the last one that it issued."""
    if not log.noted:
        return "before its first collective"
    waiting = next((noted for noted in log.noted if not noted.ended_ns), None)
    return f"in {waiting.place}" if waiting is not None else f"after {log.noted[-1].place}"


def _first(logs: tuple[Log, ...], exits: dict[int, int]) -> Log:
    """Who broke by itself, else who left no last word, else whom torchrun names, else who ended first."""
    broken = [log for log in logs if log.status == "failed"]
    if broken:
        return min(broken, key=lambda log: log.ended_ns or 0)
    silent = [log for log in logs if log.status is None]
    if silent:
        return next((log for log in silent if log.rank in exits), silent[0])
    named = [log for log in logs if exits.get(log.rank, 0) > 0]
    told = [log for log in logs if log.status != "finished"]
    return min(named or told or logs, key=lambda log: log.ended_ns or 0)


def _output(directory: Path) -> str:
    try:
        return (directory / OUTPUT_FILE).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
