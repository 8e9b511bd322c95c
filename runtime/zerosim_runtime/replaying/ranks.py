"""One rank of a replay: what the run computed it sleeps through, what the run sent it sends.

# Note [Lanes]
As in the simulator, the host goes through the ops in order and hands each to its lane, which does them
one by one once what they wait for has ended: a stream that computes, or a communicator. So all ranks
issue the collectives of a communicator in one order, whatever a slow network does to their times.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Final

from zerosim.plan import Op
from zerosim.replay import Replay
from zerosim_runtime.recorder import Recorder, Row
from zerosim_runtime.replaying.traffic import Traffic

_SPIN_NS: Final = 100_000
"""A sleep comes back up to so much late."""


@dataclass(slots=True)
class _Run:
    """A replay under way on one rank: the ops that have ended, and the first that failed."""

    replay: Replay
    rank: int
    traffic: dict[str, Traffic]
    recorder: Recorder
    ended: list[threading.Event]
    failure: list[BaseException] = field(default_factory=list)


def carry_out(replay: Replay, rank: int, traffic: dict[str, Traffic], recorder: Recorder) -> None:
    """Go through a replay as `rank`; `traffic` moves the bytes of each communicator.

    Raises what the first collective to fail raised.
    """
    run = _Run(replay, rank, traffic, recorder, [threading.Event() for _ in replay.plan.ops])
    lanes: dict[str, SimpleQueue[tuple[Op, Row] | None]] = {}
    threads: list[threading.Thread] = []
    try:
        for op in replay.plan.ops:
            if run.failure:
                break
            row = recorder.begin(op.id)
            name = op.communicator or op.stream
            if name not in lanes:
                lanes[name] = SimpleQueue()
                threads.append(_lane(run, lanes[name]))
            lanes[name].put((op, row))
            if op.blocks or (replay.blocking and op.group is None):
                run.ended[op.id].wait()
    finally:
        for queue in lanes.values():
            queue.put(None)
    for thread in threads:
        thread.join()
    if run.failure:
        raise run.failure[0]


def _lane(run: _Run, queue: SimpleQueue[tuple[Op, Row] | None]) -> threading.Thread:
    def work() -> None:
        while (item := queue.get()) is not None:
            op, row = item
            try:
                _do(run, op, row)
            except Exception as error:  # noqa: BLE001 - it is raised again in the rank's main thread
                run.failure.append(error)
            # Whoever waits must not wait for ever, also after a failure.
            run.ended[op.id].set()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def _do(run: _Run, op: Op, row: Row) -> None:
    for before in op.after:
        run.ended[before].wait()
    if run.failure:
        return
    now = run.recorder.now
    row.start = start = now()
    if op.id in run.replay.priced and op.communicator is not None:
        run.traffic[op.communicator].move(op, run.recorder.ring, now)
    else:
        _pass(run.replay.durations[op.id][run.rank], start, now)
    row.end = now()


def _pass(ns: int, since: int, now: Callable[[], int]) -> None:
    """Let `ns` pass from `since` on."""
    left = since + ns - now()
    if left > _SPIN_NS:
        time.sleep((left - _SPIN_NS) / 1e9)
    while now() < since + ns:
        pass
