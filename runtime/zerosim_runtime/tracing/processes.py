"""The processes of a traced program, found by the directory that their environment names."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from zerosim_runtime.tracing.hook import DIRECTORY_VARIABLE

_POLL_S: Final = 0.05


def processes_of(directory: Path) -> list[int]:
    """All living processes that trace into `directory`, or would: ranks, launchers, data loaders."""
    mark = f"{DIRECTORY_VARIABLE}={directory}".encode()
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and int(entry.name) != os.getpid():
            with suppress(OSError):
                if mark in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
    return found


def end_all(directory: Path, grace_s: float) -> None:
    """End every process of the program: first ask, and after `grace_s` kill. Returns when all are gone."""
    deadline = time.monotonic() + grace_s
    asked: set[int] = set()
    while left := processes_of(directory):
        for pid in left:
            if time.monotonic() > deadline:
                _signal(pid, signal.SIGKILL)
            elif pid not in asked:
                _signal(pid, signal.SIGTERM)
        asked.update(left)
        # A stopped process hears of its end only when it goes on.
        for pid in left:
            _signal(pid, signal.SIGCONT)
        time.sleep(_POLL_S)


def _signal(pid: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)
