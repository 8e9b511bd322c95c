"""Constants fitted on measured steps: few for each device, on rows marked calib and no others.

What is made small is ln(predicted / measured), by a soft absolute value, so that a row that was
measured wrong pulls no harder than it must. See Note [Paths while fitting] in path.py; what is left
is what the simulator says with the constants found.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from zerosim.errors import MeasurementError
from zerosim.hardware.calibration import Calibration
from zerosim.validation.bench import Bench, bench
from zerosim.validation.constants import DEFAULT, Constant, constants, started, value, with_values
from zerosim.validation.document import document
from zerosim.validation.path import Walk, length_s, prices
from zerosim.validation.predict import Predicted
from zerosim.validation.trial import AS_SHIPPED, Trial

SOFT: Final = 0.03
"""Residuals of this size begin to count less than by their square: what runs differ by anyway."""
MAX_TRIALS: Final = 12
"""After so many simulations of all rows a path that is still new makes no difference that matters."""
_NEAR: Final = 1e-3
"""Constants that change by less than a thousandth are found."""
_STEP: Final = 1e-3
"""Nanoseconds are whole numbers, so that a difference over less would be their rounding."""
Notice = Callable[[int, float], None]
Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Residual:
    """What is left after the fit, on the rows of one source: of |ln(predicted / measured)|."""

    source_id: str
    n_rows: int
    mean: float
    median: float
    bias: float


@dataclass(frozen=True, slots=True)
class Fit:
    """The constants with the numbers found, the document they make, and what is left by source.

    `spread`: of each constant, the relative change that the rows could not tell from none (its
    standard error); None where the rows do not depend on it.
    """

    constants: tuple[Constant, ...]
    values: tuple[float, ...]
    spread: tuple[float | None, ...]
    calibration: Calibration
    residuals: tuple[Residual, ...]
    ln_ratios: tuple[float, ...]


def fit(
    found: Sequence[Predicted],
    names: Sequence[str] = DEFAULT,
    *,
    trial: Trial = AS_SHIPPED,
    by_source: bool = False,
    workers: int | None = None,
    notice: Notice = lambda _, __: None,
) -> Fit:
    """Fit the constants `names` of every device and launcher of `found` on all of its rows.

    `trial` has where to start, which is also what constants are that are not fitted, and the
    mechanisms that are taken out. `by_source`: sources weigh alike, not rows. `notice` hears the number of each trial and its mean error.
    Raises MeasurementError for a row that is not marked calib, or if there is none; UnknownNameError.
    """
    _refuse_others(found)
    every, start = constants(found, names), started(found, trial.calibration)
    with bench([one.scenario for one in found], trial, workers) as rows:
        search = Search(found, every, start, trial, rows, _weights(found, by_source=by_source))
        logs = np.asarray([math.log(value(start, constant)) for constant in every])
        ln, jacobian = search.simulated(logs), np.zeros((len(found), len(every)))
        for trials in range(1, MAX_TRIALS + 1):
            notice(trials, float(np.abs(ln).mean()))
            best, jacobian = search.least(logs)
            far = float(np.abs(best - logs).max())
            logs, ln = best, search.simulated(best)
            if far < _NEAR:
                break
    return Fit(
        constants=every,
        values=tuple(float(x) for x in np.exp(logs)),
        spread=_spread(jacobian, ln),
        calibration=document(start, every, np.exp(logs).tolist(), found, ln.tolist()),
        residuals=_residuals(found, ln),
        ln_ratios=tuple(float(x) for x in ln),
    )


@dataclass(frozen=True, slots=True)
class Search:
    """What a fit looks at: rows, constants and the paths seen so far, of each row its own."""

    found: Sequence[Predicted]
    every: tuple[Constant, ...]
    start: Calibration
    trial: Trial
    rows: Bench
    weights: Array
    seen: list[list[Walk]] = field(default_factory=list)
    beside: list[float] = field(default_factory=list)

    def simulated(self, logs: Array) -> Array:
        """ln(predicted / measured) by the simulator; it remembers the paths on which that hangs."""
        walks = self.rows.walks(self._calibration(logs))
        if not self.seen:
            self.seen.extend([] for _ in walks)
        for seen, walk in zip(self.seen, walks, strict=True):
            seen.append(walk)
        # What contention adds to a path is no price of an op; it is carried over as a factor.
        self.beside[:] = [0.0] * len(walks)
        ln = self.priced(logs)
        seconds = np.asarray([walk.seconds for walk in walks])
        exact: Array = np.log(seconds / np.asarray([one.row.measured_s for one in self.found]))
        self.beside[:] = (exact - ln).tolist()
        return exact

    def priced(self, logs: Array) -> Array:
        """The same by the longest of the paths that were seen."""
        calibration = self._calibration(logs)
        now = replace(self.trial, calibration=calibration)
        ln = []
        for one, distinct, walks in zip(self.found, self.rows.distinct, self.seen, strict=True):
            durations, issues = prices(distinct, now.cluster(one.scenario))
            seconds = max(length_s(walk, durations, issues) for walk in walks)
            ln.append(math.log(seconds / one.row.measured_s))
        total: Array = np.asarray(ln) + np.asarray(self.beside)
        return total

    def slopes(self, logs: Array) -> Array:
        """Differences of `priced`. All devices' constants of one name move at once: a row has one."""
        owned = np.asarray(
            [[c.kind != "device" or c.of == one.device for c in self.every] for one in self.found]
        )
        here, found = self.priced(logs), np.zeros(owned.shape)
        for name in dict.fromkeys(constant.name for constant in self.every):
            mine = [i for i, constant in enumerate(self.every) if constant.name == name]
            moved = logs.copy()
            moved[mine] -= _STEP
            change = (here - self.priced(moved)) / _STEP
            found[:, mine] = np.where(owned[:, mine], change[:, None], 0.0)
        return found

    def least(self, logs: Array) -> tuple[Array, Array]:
        """Where the error is least by the paths seen, and how each row depends on each constant."""
        from scipy.optimize import least_squares  # noqa: PLC0415 - half a second for fits alone

        solved = least_squares(
            lambda x: self.priced(x) * self.weights,
            logs,
            jac=lambda x: self.slopes(x) * self.weights[:, None],
            bounds=(
                [math.log(constant.low) for constant in self.every],
                [math.log(constant.high) for constant in self.every],
            ),
            loss="soft_l1",
            f_scale=SOFT,
            xtol=1e-4,
            ftol=1e-5,
            max_nfev=15,
        )
        best: Array = solved.x
        return best, self.slopes(best)

    def _calibration(self, logs: Array) -> Calibration:
        return with_values(self.start, self.every, np.exp(logs).tolist())


def _refuse_others(found: Sequence[Predicted]) -> None:
    if not found:
        raise MeasurementError("no row is marked calib: constants are fitted on those alone")
    for one in found:
        if one.row.split != "calib":
            raise one.row.refused(
                f"split is '{one.row.split}': constants are fitted on rows marked calib, no others"
            )


def _weights(found: Sequence[Predicted], *, by_source: bool) -> Array:
    if not by_source:
        return np.ones(len(found))
    of_source = Counter(one.row.source_id for one in found)
    each = len(found) / len(of_source)
    return np.asarray([math.sqrt(each / of_source[one.row.source_id]) for one in found])


def _spread(jacobian: Array, residuals: Array) -> tuple[float | None, ...]:
    """Standard errors from the curvature at the end; None for what nothing depends on."""
    n_rows, n_constants = jacobian.shape
    noise = float((residuals**2).sum()) / max(1, n_rows - n_constants)
    told = np.abs(jacobian).max(axis=0) > 1e-6  # noqa: PLR2004 - rounding of differences
    found: list[float | None] = [None] * n_constants
    used = np.flatnonzero(told)
    if used.size:
        inverse = np.linalg.pinv(jacobian[:, used].T @ jacobian[:, used])
        for place, variance in zip(used, np.diag(inverse), strict=True):
            found[int(place)] = float(np.sqrt(noise * variance))
    return tuple(found)


def _residuals(found: Sequence[Predicted], ln: Array) -> tuple[Residual, ...]:
    by_source: dict[str, list[float]] = {}
    for one, left in zip(found, ln, strict=True):
        by_source.setdefault(one.row.source_id, []).append(float(left))
    return tuple(
        Residual(
            source,
            len(some),
            float(np.mean(np.abs(some))),
            float(np.median(np.abs(some))),
            float(np.mean(some)),
        )
        for source, some in sorted(by_source.items())
    )
