"""Why a traced program failed, in one clause: which rank, in or after which collective."""

from __future__ import annotations

import re
import signal
from pathlib import Path
from typing import Final

from zerosim_runtime.ring import Noted
from zerosim_runtime.tracing.log import Log, read_logs

OUTPUT_FILE: Final = "program.log"
_RAISED: Final = re.compile(
    r"^(?:\[rank\d+\]: *)?(?:[a-zA-Z_]\w*\.)*(?P<error>\w*(?:Error|Exception|Exit|Interrupt)(?:: .*)?)$",
    re.MULTILINE,
)
_FIRST: Final = re.compile(r"failed \(exitcode: (?P<code>-?\d+)\) local_rank: (?P<rank>\d+)")
_EVERY: Final = re.compile(
    r"rank +: (?P<rank>\d+) \(local_rank: \d+\)\s+exitcode\s*: (?P<code>-?\d+)"
)


def describe(directory: Path, code: int, name: str) -> str:
    """Who failed first, how, and where it stood; `code` is the exit code of the whole program."""
    logs = read_logs(directory)
    output = _output(directory)
    if not logs:
        raised = last_error(output)
        why = f" ({raised})" if raised else ""
        return f"'{name}' {_how(code)} before its process group was made{why}"
    exits = {
        int(m["rank"]): int(m["code"]) for m in (*_FIRST.finditer(output), *_EVERY.finditer(output))
    }
    first = _first(logs, exits)
    if first.status == "failed":
        return f"rank {first.rank} failed ({first.message}) {place(first)}"
    if first.status is None:
        return f"rank {first.rank} {_how(exits.get(first.rank, code))} {place(first)}"
    return f"rank {first.rank} {_how(exits.get(first.rank, code))} {place(first)}"


def incomplete(logs: tuple[Log, ...]) -> str | None:
    """What is missing of a run whose launcher nobody can ask; None: all ranks have finished."""
    world = int(logs[0].header["world_size"])
    missing = [rank for rank in range(world) if rank not in {log.rank for log in logs}]
    if missing:
        return f"{len(missing)} of {world} ranks left no record, rank {missing[0]} among them"
    broken = [log for log in logs if log.status != "finished"]
    if not broken:
        return None
    first = _first(logs, {})
    return f"rank {first.rank} {_ended(first)} {place(first)}"


def _ended(log: Log) -> str:
    if log.status is None:
        return "left no last word,"
    return f"{log.status} ({log.message})" if log.message else log.status


def place(log: Log) -> str:
    """Where a rank stood: the collective that it had issued last."""
    if not log.noted:
        return "before its first collective"
    last = log.noted[-1]
    return f"{'after' if last.ended_ns else 'in'} {noted_as(last)}"


def noted_as(noted: Noted) -> str:
    """A collective in a few words: kind, number in its group, unit."""
    unit = f", unit '{noted.unit}'" if noted.unit else ""
    return f"{noted.kind} {noted.seq} of group '{noted.group}'{unit}"


def last_error(output: str) -> str | None:
    """The last error that a program printed."""
    found = [match["error"].strip() for match in _RAISED.finditer(output)]
    own = [error for error in found if not error.startswith("ChildFailedError")]
    return own[-1] if own else None


def _first(logs: tuple[Log, ...], exits: dict[int, int]) -> Log:
    """Who broke by itself, else who left no last word, else whom torchrun names, else the first that ended."""
    broken = [log for log in logs if log.status == "failed"]
    if broken:
        return min(broken, key=lambda log: log.ended_ns or 0)
    silent = [log for log in logs if log.status is None]
    if silent:
        return next((log for log in silent if log.rank in exits), silent[0])
    named = [log for log in logs if exits.get(log.rank, 0) > 0]
    return min(named or logs, key=lambda log: log.ended_ns or 0)


def _how(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"


def _output(directory: Path) -> str:
    try:
        return (directory / OUTPUT_FILE).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
