"""How a rank ends when it is told to, and when nobody is left who could tell it."""

from __future__ import annotations

import fcntl
import os
import select
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Final, NoReturn

from zerosim_runtime.assignment import LOCK_FILE

_GRACE_S: Final = 5.0
_PERIOD_S: Final = 1.0


class Terminated(BaseException):
    """The rank was told to stop; raised in its main thread so that it writes down what it has."""


def raise_terminated(_: int, __: FrameType | None) -> NoReturn:
    """The signal handler of a rank; told again, it goes on writing down what it has."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise Terminated


def watch(directory: Path, before_end: list[Callable[[], None]]) -> None:
    """Start a thread that ends this process once it is told to stop, or its launcher is gone.

    A main thread deep inside a collective does not see a signal; the thread does, through the wake-up
    descriptor, gives the main thread 5 s, and then does itself what is to be done `before_end`.
    """
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    threading.Thread(target=_watch, args=(reader, directory, before_end), daemon=True).start()


def _watch(reader: int, directory: Path, before_end: list[Callable[[], None]]) -> None:
    while True:
        told, _, _ = select.select([reader], [], [], _PERIOD_S)
        if not told and launcher_lives(directory):
            continue
        if not told:
            os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(_GRACE_S)
        for act in before_end:
            with suppress(Exception):
                act()
        os._exit(1)


def launcher_lives(directory: Path) -> bool:
    """Whether somebody holds the lock of `directory`."""
    try:
        with (directory / LOCK_FILE).open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False
