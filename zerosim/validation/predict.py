"""Simulate measured rows: the steady step of each scenario, on every core."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Final

from zerosim.cluster import Cluster
from zerosim.errors import InputError, MeasurementError
from zerosim.hardware import MACHINES
from zerosim.scenario import Scenario
from zerosim.validation.rows import LeftOut, StepRow
from zerosim.validation.steps import simulated
from zerosim.validation.trial import AS_SHIPPED, Trial

_ALONE: Final = 8
"""So few rows are not worth a second process, which takes a second to start."""


@dataclass(frozen=True, slots=True)
class Predicted:
    """A row with the seconds that the simulator says its step takes.

    `device` and `launcher` are what its constants go by, `peak_flops` is FLOP/s.
    """

    row: StepRow
    scenario: Scenario
    defaults: tuple[tuple[str, str, str], ...]
    seconds: float
    device: str
    launcher: str
    peak_flops: float


def predict(
    rows: Sequence[StepRow], trial: Trial = AS_SHIPPED, *, workers: int | None = None
) -> tuple[tuple[Predicted, ...], tuple[LeftOut, ...]]:
    """Every row that can be simulated, in order, and those that cannot with why."""
    given = [(row, trial) for row in rows]
    count = workers or os.cpu_count() or 1
    if count == 1 or len(rows) <= _ALONE:
        found = [_answer(one) for one in given]
    else:
        context = multiprocessing.get_context("forkserver")
        with ProcessPoolExecutor(count, mp_context=context) as pool:
            found = list(pool.map(_answer, given, chunksize=4))
    return (
        tuple(one for one in found if isinstance(one, Predicted)),
        tuple(one for one in found if isinstance(one, LeftOut)),
    )


def _answer(given: tuple[StepRow, Trial]) -> Predicted | LeftOut:
    row, trial = given
    try:
        return predicted(row, trial)
    except MeasurementError as error:
        return LeftOut(row.row_id, row.source_id, str(error), wanted=True)


def predicted(row: StepRow, trial: Trial = AS_SHIPPED) -> Predicted:
    """One row simulated. Raises MeasurementError if it cannot be, or was never measured so."""
    found = simulated(row)
    try:
        scenario = trial.scenario(found.scenario)
        cluster = trial.cluster(scenario)
        _refuse_impossible(row, cluster)
        seconds = trial.seconds(scenario, cluster)
    except MeasurementError:
        raise
    except InputError as error:
        raise row.refused(str(error)) from None
    device = cluster.device
    launcher = MACHINES[scenario.cluster.name].launcher
    filled = tuple(default.told for default in found.defaults)
    return Predicted(row, scenario, filled, seconds, device.name, launcher, device.peak_flops)


def _refuse_impossible(row: StepRow, cluster: Cluster) -> None:
    share = row.model_flops / row.measured_s / cluster.device.peak_flops
    if share > 1:
        raise row.refused(
            f"{row.measured_s:g} s a step is {share:.0%} of the peak of its GPU "
            f"({cluster.device.peak_flops / 1e12:g} TFLOP/s): nothing computes so, mend the row"
        )
