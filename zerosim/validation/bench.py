"""Rows on the bench: planned once, then timed again and again with other constants, on every core."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace

from zerosim.hardware.calibration import Calibration
from zerosim.plan import Plan
from zerosim.scenario import Scenario
from zerosim.validation.trial import AS_SHIPPED, Trial, steady_seconds

Held = list[tuple[Scenario, Plan]]
Seconds = Callable[[Calibration], list[float]]
"""The steady step of every scenario with these constants, in the order they were given."""


@contextmanager
def bench(
    scenarios: Sequence[Scenario], trial: Trial = AS_SHIPPED, workers: int | None = None
) -> Iterator[Seconds]:
    """A bench with these scenarios on it, simulated as `trial` says but for its constants.

    Every process gets each n-th scenario, so that all have as much to do; one alone is this process.
    """
    count = max(1, min(workers or os.cpu_count() or 1, len(scenarios)))
    if count == 1:
        held = _planned(scenarios, trial)
        yield lambda calibration: _timed(held, trial, calibration)
        return
    shares = [range(first, len(scenarios), count) for first in range(count)]
    context = multiprocessing.get_context("forkserver")
    with ExitStack() as stack:
        pools = [
            stack.enter_context(
                ProcessPoolExecutor(
                    1, context, initializer=_hold, initargs=([scenarios[i] for i in share], trial)
                )
            )
            for share in shares
        ]

        def seconds(calibration: Calibration) -> list[float]:
            waiting = [pool.submit(_answer, calibration) for pool in pools]
            found = [0.0] * len(scenarios)
            for share, future in zip(shares, waiting, strict=True):
                for place, answer in zip(share, future.result(), strict=True):
                    found[place] = answer
            return found

        yield seconds


def _planned(scenarios: Sequence[Scenario], trial: Trial) -> Held:
    return [(scenario, trial.plan(scenario)) for scenario in scenarios]


def _timed(held: Held, trial: Trial, calibration: Calibration) -> list[float]:
    now = replace(trial, calibration=calibration)
    return [steady_seconds(plan, now.cluster(scenario)) for scenario, plan in held]


_mine: list[tuple[Held, Trial]] = []
"""What this process has on its bench; filled once, before its first answer."""


def _hold(scenarios: Sequence[Scenario], trial: Trial) -> None:
    _mine[:] = [(_planned(scenarios, trial), trial)]


def _answer(calibration: Calibration) -> list[float]:
    ((held, trial),) = _mine
    return _timed(held, trial, calibration)
