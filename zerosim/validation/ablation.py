"""The ablation: what each mechanism is worth, as the error without it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from zerosim.hardware.calibration import Calibration
from zerosim.validation.board import Scoreboard, scored_board
from zerosim.validation.fit import fit
from zerosim.validation.mechanisms import MECHANISMS
from zerosim.validation.predict import predict
from zerosim.validation.rows import StepRow, calib
from zerosim.validation.score import Errors
from zerosim.validation.trial import Trial

SUITES: Final = ("core-holdout", "mosaicml", "multi-node-fsdp", "test")
"""What an ablation is judged by."""


@dataclass(frozen=True, slots=True)
class Ablated:
    """Errors by suite without one mechanism ('' for none taken out), and median scaling error, points.

    `refitted`: constants were fitted anew without it, so that they do not stand in for it.
    """

    mechanism: str
    says: str
    refitted: bool
    errors: dict[str, Errors]
    scaling: dict[str, float | None]

    def record(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)


def ablation(
    rows: Sequence[StepRow], trial: Trial, names: Sequence[str] | None = None
) -> tuple[Ablated, ...]:
    """All mechanisms in, then each taken out beside those that `trial` takes out already.

    `names`: constants that are fitted anew each time, on calib rows alone; None: as they are.
    """
    found = []
    for mechanism in ("", *(name for name in MECHANISMS if name not in trial.without)):
        one = replace(trial, without=(*trial.without, *filter(None, (mechanism,))))
        if names is not None:
            one = replace(one, calibration=_fitted(rows, one, names))
        predicted, left_out = predict(rows, one)
        says = MECHANISMS[mechanism].says if mechanism else "all mechanisms"
        board = scored_board(predicted, left_out)
        found.append(_ablated(mechanism, says, board, refitted=names is not None))
    return tuple(found)


def _fitted(rows: Sequence[StepRow], trial: Trial, names: Sequence[str]) -> Calibration:
    return fit(predict(calib(rows), trial)[0], names, trial=trial).calibration


def _ablated(mechanism: str, says: str, board: Scoreboard, *, refitted: bool) -> Ablated:
    suites = {name: suite for name in SUITES if (suite := board.suite(name)) is not None}
    return Ablated(
        mechanism=mechanism,
        says=says,
        refitted=refitted,
        errors={name: suite.errors for name, suite in suites.items()},
        scaling={
            name: None if suite.scaling is None else suite.scaling.median
            for name, suite in suites.items()
        },
    )
