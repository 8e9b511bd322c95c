"""Rows on the bench: planned once, then simulated again and again with other constants, on every core."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import TypeVar

from zerosim.hardware.calibration import Calibration
from zerosim.plan import Plan
from zerosim.scenario import Scenario
from zerosim.validation.path import Walk, Walker, walker
from zerosim.validation.trial import AS_SHIPPED, Trial

T = TypeVar("T")
Held = list[tuple[Scenario, Walker]]


@dataclass(frozen=True, slots=True)
class Bench:
    """Scenarios on the bench. `distinct`: of each, one op of every kind that costs the same.

    `walks` simulates all of them with the constants of a calibration, in the order they were given.
    """

    distinct: tuple[Plan, ...]
    walks: Callable[[Calibration], list[Walk]]


@contextmanager
def bench(
    scenarios: Sequence[Scenario], trial: Trial = AS_SHIPPED, workers: int | None = None
) -> Iterator[Bench]:
    """A bench with these scenarios on it, simulated as `trial` says but for its constants.

    Every process gets each n-th scenario, so that all have as much to do; one alone is this process.
    """
    count = max(1, min(workers or os.cpu_count() or 1, len(scenarios)))
    if count == 1:
        held = _planned(scenarios, trial)
        distinct = tuple(one.distinct for _, one in held)
        yield Bench(distinct, lambda calibration: _walked(held, trial, calibration))
        return
    shares = [range(first, len(scenarios), count) for first in range(count)]
    context = multiprocessing.get_context("forkserver")
    with ExitStack() as stack:
        pools = [stack.enter_context(ProcessPoolExecutor(1, context)) for _ in shares]
        each = [[scenarios[i] for i in share] for share in shares]
        plans = [pool.submit(_hold, mine, trial) for pool, mine in zip(pools, each, strict=True)]

        def walks(calibration: Calibration) -> list[Walk]:
            return _in_order(shares, [pool.submit(_answer, calibration) for pool in pools])

        yield Bench(tuple(_in_order(shares, plans)), walks)


def _in_order(shares: Sequence[range], answers: Sequence[Future[list[T]]]) -> list[T]:
    """What the processes found, in the order of the scenarios."""
    found = {
        place: answer
        for share, future in zip(shares, answers, strict=True)
        for place, answer in zip(share, future.result(), strict=True)
    }
    return [found[place] for place in range(len(found))]


def _planned(scenarios: Sequence[Scenario], trial: Trial) -> Held:
    return [(one, walker(trial.plan(one), trial.cluster(one))) for one in scenarios]


def _walked(held: Held, trial: Trial, calibration: Calibration) -> list[Walk]:
    now = replace(trial, calibration=calibration)
    return [one.walk(now.cluster(scenario)) for scenario, one in held]


_mine: list[tuple[Held, Trial]] = []
"""What this process has on its bench; filled once, before its first answer."""


def _hold(scenarios: Sequence[Scenario], trial: Trial) -> list[Plan]:
    held = _planned(scenarios, trial)
    _mine[:] = [(held, trial)]
    return [one.distinct for _, one in held]


def _answer(calibration: Calibration) -> list[Walk]:
    ((held, trial),) = _mine
    return _walked(held, trial, calibration)
