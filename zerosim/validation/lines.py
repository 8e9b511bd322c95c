"""Paths as straight lines: how long each is by the constants, as far as durations are sums of terms.

An op's duration is a sum of launches, FLOPs over a rate and bytes over a rate, so a path's length is a
straight line in what a launch takes and in one over each share. Its slopes are differences of prices;
where a model is no such sum, the lines touch it where the last simulation was.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from zerosim.hardware.calibration import Calibration
from zerosim.plan import Plan
from zerosim.validation.constants import Constant, with_values
from zerosim.validation.path import Walk, length_s, prices
from zerosim.validation.predict import Predicted
from zerosim.validation.trial import Trial

Array = NDArray[np.float64]
_STRETCH: Final = 1.5
"""How far a constant is moved for a slope: far enough that whole nanoseconds do not matter."""


@dataclass(frozen=True, slots=True)
class Lines:
    """Lengths of the paths of all rows, row by row, and their slopes by each name of a constant.

    `first` is where each row's paths begin, `row_of` whose each is; `which` the constant that a row has
    for each name. `at` is where the lengths hold. `beside`: what the simulator says beyond the longest
    path, in logarithms; contention is that.
    """

    lengths_s: Array
    slopes: Array
    first: NDArray[np.int64]
    row_of: NDArray[np.int64]
    which: NDArray[np.int64]
    inverse: NDArray[np.bool_]
    at: Array
    measured_s: Array
    beside: Array

    def ln(self, logs: Array) -> Array:
        """The logarithm of predicted over measured, of every row, by its longest path."""
        moved = self._terms(logs) - self._terms(self.at)
        each = self.lengths_s + (self.slopes * moved[self.row_of]).sum(axis=1)
        longest = np.maximum.reduceat(np.maximum(each, 1e-9), self.first)
        found: Array = np.log(longest / self.measured_s) + self.beside
        return found

    def _terms(self, logs: Array) -> Array:
        """What a row's lengths are straight in: shape [rows, names]."""
        every = np.append(np.exp(np.where(self.inverse, -logs, logs)), 1.0)
        terms: Array = every[self.which]
        return terms


def lines(
    found: Sequence[Predicted],
    distinct: Sequence[Plan],
    seen: Sequence[Sequence[Walk]],
    every: Sequence[Constant],
    start: Calibration,
    trial: Trial,
    logs: Array,
) -> Lines:
    """The lines of all paths that were seen, where the constants `every` have these logarithms."""
    names = list(dict.fromkeys(constant.name for constant in every))
    inverse = np.asarray([constant.inverse for constant in every])
    here = _lengths(found, distinct, seen, replace(trial, calibration=_with(start, every, logs)))
    slopes = np.zeros((here.size, len(names)))
    which = np.asarray([[_constant_of(one, name, every) for name in names] for one in found])
    counts = np.asarray([len(walks) for walks in seen])
    row_of = np.repeat(np.arange(len(found)), counts)
    for column, name in enumerate(names):
        mine = np.asarray([constant.name == name for constant in every])
        step = np.where(inverse, -1.0, 1.0) * np.log(_STRETCH) * mine
        there = replace(trial, calibration=_with(start, every, logs + step))
        change = _lengths(found, distinct, seen, there) - here
        term = np.append(np.exp(np.where(inverse, -logs, logs)), 1.0)[which[:, column]]
        slopes[:, column] = change / ((_STRETCH - 1) * term[row_of])
    return Lines(
        lengths_s=here,
        slopes=slopes,
        first=np.concatenate(([0], np.cumsum(counts)[:-1])).astype(np.int64),
        row_of=row_of.astype(np.int64),
        which=which.astype(np.int64),
        inverse=inverse,
        at=logs,
        measured_s=np.asarray([one.row.measured_s for one in found]),
        beside=np.zeros(len(found)),
    )


def _with(start: Calibration, every: Sequence[Constant], logs: Array) -> Calibration:
    return with_values(start, every, np.exp(logs).tolist())


def _lengths(
    found: Sequence[Predicted],
    distinct: Sequence[Plan],
    seen: Sequence[Sequence[Walk]],
    trial: Trial,
) -> Array:
    lengths: list[float] = []
    for one, plan, walks in zip(found, distinct, seen, strict=True):
        durations, issues = prices(plan, trial.cluster(one.scenario))
        lengths += [length_s(walk, durations, issues) for walk in walks]
    return np.asarray(lengths)


def _constant_of(one: Predicted, name: str, every: Sequence[Constant]) -> int:
    """Which constant of that name a row has; past the last one, where nothing moves: it has none."""
    mine = (
        i
        for i, constant in enumerate(every)
        if constant.name == name and constant.of in (one.device, one.launcher)
    )
    return next(mine, len(every))
