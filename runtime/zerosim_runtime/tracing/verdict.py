"""Why a traced program failed, in one clause: which rank, in or after which collective."""

from __future__ import annotations

import re
import signal
from pathlib import Path
from typing import Final

from zerosim_runtime.disagreement import disagreement
from zerosim_runtime.places import Where
from zerosim_runtime.tracing.log import Log, read_logs

OUTPUT_FILE: Final = "program.log"
_RAISED: Final = re.compile(
    r"^(?:\[rank\d+\]: *)?(?:[a-zA-Z_]\w*\.)*(?P<error>\w*(?:Error|Exception|Interrupt)(?:: .*)?)$",
    re.MULTILINE,
)
_FIRST: Final = re.compile(r"failed \(exitcode: (?P<code>-?\d+)\) local_rank: (?P<rank>\d+)")
_EVERY: Final = re.compile(
    r"rank +: (?P<rank>\d+) \(local_rank: \d+\)\s+exitcode\s*: (?P<code>-?\d+)"
)


def describe(directory: Path, code: int, name: str) -> str:
    """Who failed first, how, and where it stood; `code` is the exit code of the whole program."""
    logs, output = read_logs(directory), _output(directory)
    if not logs:
        raised = _last_error(output)
        why = f" ({raised})" if raised else ""
        return f"'{name}' {_how(code)} before its process group was made{why}"
    if (apart := disagreement(directory, int(logs[0].header["world_size"]))) is not None:
        return apart.reason
    found = (*_EVERY.finditer(output), *_FIRST.finditer(output))
    exits = {int(match["rank"]): int(match["code"]) for match in found}
    first = _first(logs, exits)
    if first.status == "failed":
        return f"rank {first.rank} failed ({first.message}) {_place(first)}"
    return f"rank {first.rank} {_how(exits.get(first.rank, code))} {_place(first)}"


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


def _how(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"


def _last_error(output: str) -> str | None:
    """The last error that a program printed, but for torchrun's own."""
    found = (match["error"].strip() for match in _RAISED.finditer(output))
    return next((e for e in reversed([*found]) if not e.startswith("ChildFailedError")), None)


def _output(directory: Path) -> str:
    try:
        return (directory / OUTPUT_FILE).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
