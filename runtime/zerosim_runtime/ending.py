"""How a launched run ends: its ranks are told to stop, and whatever is left of it is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from zerosim_runtime.tracing.hook import DIRECTORY_VARIABLE

_GRACE_S: Final = 7.0
_POLL_S: Final = 0.02


def mark(directory: Path) -> dict[str, str]:
    """What the environment of a run's processes must hold so that `family` finds them.

    When ranks fail, torchrun leaves its temporary files behind; so they lie in `directory`, too.
    """
    return {"TMPDIR": str(directory)}


def family(directories: Sequence[Path]) -> list[int]:
    """The processes of a run that are still alive: torchrun, the ranks, and what these have forked.

    Those of a traced program keep their own TMPDIR, and are told where to write.
    """
    entries = [
        b"\0%s=%s\0" % (name, os.fsencode(directory))
        for directory in directories
        for name in (b"TMPDIR", DIRECTORY_VARIABLE.encode())
    ]
    found: list[int] = []
    for place in Path("/proc").iterdir():
        if place.name.isdecimal():
            with suppress(OSError):
                environment = b"\0" + (place / "environ").read_bytes() + b"\0"
                if any(entry in environment for entry in entries):
                    found.append(int(place.name))
    return found


def rank_in(environment: bytes) -> dict[str, int]:
    """What an environment, as /proc shows it, says of a rank: RANK, WORLD_SIZE, LOCAL_WORLD_SIZE."""
    words = dict(entry.partition(b"=")[::2] for entry in environment.split(b"\0"))
    names = ("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")
    found = {name: words.get(name.encode(), b"") for name in names}
    return {name: int(value) for name, value in found.items() if value.isdigit()}


def ranks_of(directories: Sequence[Path]) -> dict[int, tuple[int, dict[str, int]]]:
    """The ranks of a run that are alive, also before they have come together: pid and `rank_in`."""
    found: dict[int, tuple[int, dict[str, int]]] = {}
    for pid in sorted(family(directories), reverse=True):
        with suppress(OSError):
            said = rank_in(Path(f"/proc/{pid}/environ").read_bytes())
            if "RANK" in said:
                found[said["RANK"]] = (pid, said)
    return found


def end(agents: Sequence[subprocess.Popen[bytes]], directories: Sequence[Path]) -> None:
    """Tell torchrun to stop its ranks, or what is left of them to stop; kill what stays after 7 s.

    A rank that was stopped by a signal goes on, so that it can write down what it has.
    """
    with _undisturbed():
        alive = [agent for agent in agents if agent.poll() is None]
        for agent in alive:
            agent.terminate()
        if not alive:
            _signal(family(directories), signal.SIGTERM)
        _signal(family(directories), signal.SIGCONT)
        deadline = time.monotonic() + _GRACE_S
        told = not alive
        while (running := any(agent.poll() is None for agent in agents)) or family(directories):
            if not running and not told:  # what ranks have forked
                told = True
                _signal(family(directories), signal.SIGTERM)
            if time.monotonic() > deadline:
                _signal(family(directories), signal.SIGKILL)
            time.sleep(_POLL_S)


def _signal(pids: list[int], *numbers: signal.Signals) -> None:
    for pid in pids:
        for number in numbers:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)


@contextmanager
def _undisturbed() -> Iterator[None]:
    """A second Ctrl-C must not leave half of the ranks behind."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, signal.SIG_IGN) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
