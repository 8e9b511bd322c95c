"""Constants fitted on measured steps: few for each device, on rows marked calib and no others.

What is made small is ln(predicted / measured), by a soft absolute value, so that a row that was
measured wrong pulls no harder than it must. See Note [Paths while fitting] in path.py; what is left
is what the simulator says with the constants found.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from zerosim.errors import MeasurementError
from zerosim.hardware.calibration import Calibration
from zerosim.validation.bench import bench
from zerosim.validation.constants import DEFAULT, Constant, constants, started, value, with_values
from zerosim.validation.document import document
from zerosim.validation.lines import Array, Lines, lines
from zerosim.validation.path import Walk
from zerosim.validation.predict import Predicted
from zerosim.validation.trial import AS_SHIPPED, Trial

SOFT: Final = 0.03
"""Residuals of this size begin to count less than by their square: what runs differ by anyway."""
MAX_TRIALS: Final = 12
"""After so many simulations of all rows a path that is still new makes no difference that matters."""
_NEAR: Final = 1e-3
"""Constants that change by less than a thousandth are found."""
_STEP: Final = 1e-4
Notice = Callable[[int, float], None]


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
    workers: int | None = None,
    notice: Notice = lambda _, __: None,
) -> Fit:
    """Fit the constants `names` of every device and launcher of `found` on all of its rows.

    `trial` has where to start, which is also what constants are that are not fitted, and the
    mechanisms that are taken out. `notice` hears the number of each trial, in which all rows are
    simulated, and its mean error.
    Raises MeasurementError for a row that is not marked calib, or if there is none; UnknownNameError.
    """
    _refuse_others(found)
    every = constants(found, names)
    start = started(found, every, trial.calibration)
    logs = np.asarray([math.log(value(start, constant)) for constant in every])
    seen: list[list[Walk]] = [[] for _ in found]
    with bench([one.scenario for one in found], trial, workers) as rows:
        for trials in range(1, MAX_TRIALS + 1):
            walks = rows.walks(with_values(start, every, np.exp(logs).tolist()))
            for paths, walk in zip(seen, walks, strict=True):
                paths.append(walk)
            ln = _simulated(found, walks)
            notice(trials, float(np.abs(ln).mean()))
            near = lines(found, rows.distinct, seen, every, start, trial, logs)
            near = replace(near, beside=ln - near.ln(logs))
            best, jacobian = _least(near, every, logs)
            if float(np.abs(best - logs).max()) < _NEAR or trials == MAX_TRIALS:
                break
            logs = best
    return Fit(
        constants=every,
        values=tuple(float(x) for x in np.exp(logs)),
        spread=_spread(jacobian, ln),
        calibration=document(start, every, np.exp(logs).tolist(), found, ln.tolist()),
        residuals=_residuals(found, ln),
        ln_ratios=tuple(float(x) for x in ln),
    )


def _simulated(found: Sequence[Predicted], walks: Sequence[Walk]) -> Array:
    seconds = np.asarray([walk.seconds for walk in walks])
    ln: Array = np.log(seconds / np.asarray([one.row.measured_s for one in found]))
    return ln


def _least(near: Lines, every: Sequence[Constant], logs: Array) -> tuple[Array, Array]:
    """Where the error is least by the lines, and how each row depends on each constant there."""
    from scipy.optimize import least_squares  # noqa: PLC0415 - half a second that fits alone take

    solved = least_squares(
        near.ln,
        logs,
        bounds=([math.log(c.low) for c in every], [math.log(c.high) for c in every]),
        loss="soft_l1",
        f_scale=SOFT,
    )
    best: Array = solved.x
    moved = [best + _STEP * unit for unit in np.eye(len(every))]
    here = near.ln(best)
    return best, np.stack([(near.ln(x) - here) / _STEP for x in moved], axis=1)


def _refuse_others(found: Sequence[Predicted]) -> None:
    if not found:
        raise MeasurementError("no row is marked calib: constants are fitted on those alone")
    for one in found:
        if one.row.split != "calib":
            raise one.row.refused(
                f"split is '{one.row.split}': constants are fitted on rows marked calib, no others"
            )


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
