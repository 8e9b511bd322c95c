"""How a traced rank writes its last word, however it ends, and ends if its launcher is gone.

# Note [The tracer and SIGTERM]
A main thread deep inside a collective runs no Python handler, so a thread hears of the signal through
the wake-up descriptor, closes the record, and then lets the signal do what it would have done. A
program with a handler of its own keeps it, and then only its exit closes the record.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Final

from zerosim_runtime.assignment import LOCK_FILE
from zerosim_runtime.tracing.tracer import Tracer
from zerosim_runtime.watch import launcher_lives

_PERIOD_S: Final = 1.0


def at_end(tracer: Tracer, leave: Callable[[bool], None]) -> None:
    """Close `tracer` at this process's end, whatever it is but a kill.

    Before, `leave` is told whether the program finished; not so if the process is told to stop.
    """
    pid, outcome = os.getpid(), ["finished", ""]

    def close() -> None:
        if os.getpid() == pid:
            leave(outcome[0] == "finished")
            tracer.close(*outcome)

    atexit.register(close)
    _hear_of_exceptions(outcome)
    if threading.current_thread() is threading.main_thread():
        _hear_of_signals(tracer)


def _hear_of_exceptions(outcome: list[str]) -> None:
    earlier = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, where: TracebackType | None) -> None:
        outcome[:] = ["failed", f"{kind.__name__}: {error}".splitlines()[0][:400]]
        earlier(kind, error, where)

    sys.excepthook = hook


def _hear_of_signals(tracer: Tracer) -> None:
    if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        return
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    earlier = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    if earlier != -1:  # somebody else hears of signals in this way
        signal.set_wakeup_fd(earlier)
        return
    signal.signal(signal.SIGTERM, _wait_for_the_end)
    threading.Thread(target=_listen, args=(reader, tracer), daemon=True).start()


def _wait_for_the_end(_: int, __: FrameType | None) -> None:
    """See Note [The tracer and SIGTERM]: the thread ends the process at once."""
    time.sleep(_PERIOD_S)


def _listen(reader: int, tracer: Tracer) -> None:
    guarded = (tracer.directory / LOCK_FILE).exists()
    main, at = threading.main_thread().ident, None
    while True:
        told, _, _ = select.select([reader], [], [], _PERIOD_S)
        frame = sys._current_frames().get(main or 0)  # noqa: SLF001 - Python has no other way
        if frame is not None and (frame.f_code, frame.f_lasti) != at:
            # The program moves on, though it may issue no collective for long.
            at = (frame.f_code, frame.f_lasti)
            tracer.ring.beat(tracer.now())
        del frame
        if told and signal.SIGTERM not in os.read(reader, 64):
            continue
        if not told and (not guarded or launcher_lives(tracer.directory)):
            continue
        if signal.getsignal(signal.SIGTERM) is _wait_for_the_end:
            tracer.close("terminated")
            _die_of(signal.SIGTERM)


def _die_of(number: int) -> None:
    """End this process by a signal, as if nobody had heard of it."""
    ctypes.CDLL(None).signal(number, None)
    os.kill(os.getpid(), number)
    time.sleep(_PERIOD_S)
    os._exit(128 + number)
