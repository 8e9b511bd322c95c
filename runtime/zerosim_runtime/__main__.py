"""One rank of a traced run, started by torchrun: `python -m zerosim_runtime DIRECTORY`."""

from __future__ import annotations

import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

import torch
import torch.distributed as dist

from zerosim.kinds import Kind
from zerosim_runtime.assignment import RUN, read_assignment
from zerosim_runtime.collectives import PeerLostError, choose_backend, start_group
from zerosim_runtime.pace import parse_backend
from zerosim_runtime.rank import agree, make_trainer, open_rank, stop, train
from zerosim_runtime.replaying.run import replay_run
from zerosim_runtime.ring import EVERYONE, JOINING, open_ring
from zerosim_runtime.watch import Terminated, raise_terminated, watch

_SWITCH_S: Final = 1e-4
"""How soon a waiting thread gets the interpreter; with Python's 5 ms the ends of collectives are late."""


def main(directory: Path) -> int:
    """Carry out the assignment in `directory` as the rank that torchrun says; returns the exit code."""
    signal.signal(signal.SIGTERM, raise_terminated)
    before_end: list[Callable[[], None]] = []
    watch(directory, before_end)
    sys.setswitchinterval(_SWITCH_S)
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    assignment, scenario = read_assignment(directory)
    name, pace = parse_backend(assignment.backend)
    backend = choose_backend(name, int(os.environ["LOCAL_WORLD_SIZE"]))
    ring = open_ring(directory, int(os.environ["RANK"]))
    before_end.append(partial(ring.say, "terminated"))
    try:
        joining = ring.issue(EVERYONE, 0, Kind.BARRIER.value, JOINING, time.perf_counter_ns())
        start_group(assignment.timeout_s)
        ring.end(joining, time.perf_counter_ns())
        recorder = open_rank(
            directory, backend, poison=assignment.poison, rss=assignment.rss, ring=ring
        )
    except BaseException as error:  # noqa: BLE001 - whatever it is, the ring must say so
        return _failed(ring.say, error)
    before_end[:] = [partial(recorder.close, "terminated")]
    try:
        if assignment.replays:
            replay_run(directory / RUN, recorder, backend, assignment.timeout_s)
            dist.destroy_process_group()
            return 0
        recorder.write(attempt=agree(assignment, scenario, backend))
        trainer = make_trainer(
            scenario, recorder, backend=backend, timeout_s=assignment.timeout_s, pace=pace
        )
        train(trainer)
    except BaseException as error:  # noqa: BLE001 - whatever it is, the record must say so
        return _failed(recorder.close, error)
    stop(trainer)
    dist.destroy_process_group()
    return 0


def _failed(say: Callable[[str, str], None], error: BaseException) -> int:
    if isinstance(error, Terminated):
        say("terminated", "")
    elif isinstance(error, PeerLostError):
        say("peer_lost", str(error))
    else:
        say("failed", f"{type(error).__name__}: {error}")
        with suppress(OSError):  # the disk may be full
            traceback.print_exception(error)
    return 1


if __name__ == "__main__":
    code = main(Path(sys.argv[1]))
    with suppress(OSError):
        sys.stdout.flush()
        sys.stderr.flush()
    if code:
        # Threads that wait for a lost peer would keep the interpreter from ending.
        os._exit(code)
