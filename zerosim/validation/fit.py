"""Constants fitted on measured steps: few for each device, on rows marked calib and no others.

What is made small is ln(predicted / measured), by a soft absolute value, so that a row that was
measured wrong pulls no harder than it must. The simulator itself is asked at every trial.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from zerosim.errors import MeasurementError
from zerosim.hardware.calibration import Calibration
from zerosim.validation.bench import bench
from zerosim.validation.constants import DEFAULT, Constant, constants, started, value, with_values
from zerosim.validation.predict import Predicted
from zerosim.validation.trial import AS_SHIPPED, Trial

SOFT: Final = 0.03
"""Residuals of this size begin to count less than by their square: what runs differ by anyway."""
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
    measured = np.asarray([one.row.measured_s for one in found])
    weights = _weights(found, by_source=by_source)
    with bench([one.scenario for one in found], trial, workers) as seconds_of:
        trials = 0

        def residuals(logs: Array) -> Array:
            nonlocal trials
            trials += 1
            seconds = np.asarray(seconds_of(with_values(start, every, np.exp(logs).tolist())))
            ln: Array = np.log(seconds / measured)
            notice(trials, float(np.abs(ln).mean()))
            weighted: Array = ln * weights
            return weighted

        logs, jacobian, last = _least(residuals, every, start, _owned(every, found))
    ln = last / weights
    return Fit(
        constants=every,
        values=tuple(float(x) for x in np.exp(logs)),
        spread=_spread(jacobian, last),
        calibration=_document(start, every, np.exp(logs), found, ln),
        residuals=_residuals(found, ln),
        ln_ratios=tuple(float(x) for x in ln),
    )


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


def _owned(every: Sequence[Constant], found: Sequence[Predicted]) -> NDArray[np.bool_]:
    """Whether a row depends on a constant: shape [rows, constants]."""
    return np.asarray(
        [
            [constant.kind != "device" or constant.of == one.device for constant in every]
            for one in found
        ]
    )


def _least(
    residuals: Callable[[Array], Array],
    every: Sequence[Constant],
    start: Calibration,
    owned: NDArray[np.bool_],
) -> tuple[Array, Array, Array]:
    """Logarithms of the constants, the Jacobian and the residuals there."""
    from scipy.optimize import least_squares  # noqa: PLC0415 - half a second that only a fit needs

    def slopes(logs: Array) -> Array:
        """All devices' constants of one name are moved at once: a row has one device."""
        here, found = residuals(logs), np.zeros(owned.shape)
        for name in dict.fromkeys(constant.name for constant in every):
            mine = [i for i, constant in enumerate(every) if constant.name == name]
            moved = logs.copy()
            moved[mine] -= _STEP
            change = (here - residuals(moved)) / _STEP
            found[:, mine] = np.where(owned[:, mine], change[:, None], 0.0)
        return found

    solved = least_squares(
        residuals,
        [math.log(value(start, constant)) for constant in every],
        jac=slopes,
        bounds=(
            [math.log(constant.low) for constant in every],
            [math.log(constant.high) for constant in every],
        ),
        loss="soft_l1",
        f_scale=SOFT,
        xtol=1e-4,
        ftol=1e-5,
        max_nfev=30,
    )
    return solved.x, slopes(solved.x), residuals(solved.x)


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


def _document(
    start: Calibration,
    every: Sequence[Constant],
    values: Array,
    found: Sequence[Predicted],
    ln: Array,
) -> Calibration:
    """The calibration with each fitted table's source, and the provenance of the whole."""
    fitted = with_values(start, every, values.tolist())
    devices, launchers = dict(fitted.device), dict(fitted.launcher)
    for name in {constant.of for constant in every if constant.kind == "device"}:
        mine = [i for i, one in enumerate(found) if one.device == name]
        devices[name] = replace(devices[name], source=_source(name, every, mine, found, ln))
    for name in {constant.of for constant in every if constant.kind == "launcher"}:
        mine = list(range(len(found)))
        launchers[name] = replace(launchers[name], source=_source(name, every, mine, found, ln))
    total = np.abs(ln)
    provenance = {
        "what": "constants fitted by zerosim validate --fit",
        "rows": f"{len(found)} rows marked calib, none marked test",
        "sources": _counted(one.row.source_id for one in found),
        "constants": f"{len(every)}: " + ", ".join(dict.fromkeys(c.name for c in every)),
        "left": f"mean |ln(predicted / measured)| {total.mean():.1%}, median {np.median(total):.1%}",
    }
    return replace(fitted, device=devices, launcher=launchers, provenance=provenance)


def _source(
    name: str,
    every: Sequence[Constant],
    mine: Sequence[int],
    found: Sequence[Predicted],
    ln: Array,
) -> str:
    names = ", ".join(constant.name for constant in every if constant.of == name)
    rows = _counted(found[i].row.source_id for i in mine)
    error = float(np.abs(np.asarray([ln[i] for i in mine])).mean())
    return f"{names} fitted on {len(mine)} measured steps ({rows}): mean error {error:.1%}"


def _counted(sources: Iterable[str]) -> str:
    return ", ".join(f"{source} {n}" for source, n in sorted(Counter(sources).items()))
