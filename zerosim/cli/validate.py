"""`zerosim validate`: predicted beside measured, scored; constants fitted; mechanisms taken out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from zerosim.cli.files import check_out, write_out
from zerosim.cli.memory_board import memory_record, print_memory
from zerosim.cli.options import Json
from zerosim.cli.output import log, print_json, print_rows, print_table
from zerosim.cli.scoreboard import ablation_rows, board_record, fit_record, fit_rows, print_board
from zerosim.errors import InputError
from zerosim.hardware.calibration import calibration_text, read_calibration
from zerosim.validation.ablation import ablation
from zerosim.validation.board import Scoreboard, scoreboard
from zerosim.validation.cells import read_cells
from zerosim.validation.constants import DEFAULT, NAMES
from zerosim.validation.fit import Fit, fit
from zerosim.validation.mechanisms import MECHANISMS, without
from zerosim.validation.memory import MemoryScores, memory_scores
from zerosim.validation.predict import predict
from zerosim.validation.published import Ablations, scores_of
from zerosim.validation.records import to_text
from zerosim.validation.rows import StepRow, calib, read_steps
from zerosim.validation.trial import Trial

Steps = Annotated[
    Path | None, typer.Option("--steps", metavar="FILE", help="Measured steps, a CSV.")
]
Memory = Annotated[
    Path | None, typer.Option("--memory", metavar="FILE", help="Measured memory, a CSV.")
]
Given = Annotated[
    Path | None,
    typer.Option(
        "--calibration", metavar="FILE", help="Constants that go before the shipped ones."
    ),
]
Fitted = Annotated[
    bool, typer.Option("--fit", help="Fit constants on rows marked calib, and score with them.")
]
Names = Annotated[
    list[str] | None,
    typer.Option("--constant", metavar="NAME", help=f"What to fit: {', '.join(NAMES)}."),
]
FitOn = Annotated[
    str | None,
    typer.Option("--fit-on", metavar="SUITE", help="Fit on calib rows of this suite alone."),
]
Out = Annotated[
    Path | None,
    typer.Option("-o", "--out", metavar="FILE", help="Write the fitted constants here."),
]
Published = Annotated[
    Path | None,
    typer.Option("--publish", metavar="FILE", help="Store the scores as one JSON document here."),
]
Without = Annotated[
    list[str] | None,
    typer.Option("--without", metavar="MECHANISM", help=f"Take out: {', '.join(MECHANISMS)}."),
]
Ablation = Annotated[
    bool, typer.Option("--ablation", help="Take out each mechanism in turn; --fit fits each anew.")
]


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("validate")(validate)


def validate(
    steps: Steps = None,
    memory: Memory = None,
    calibration: Given = None,
    fitted: Fitted = False,
    names: Names = None,
    fit_on: FitOn = None,
    out: Out = None,
    taken_out: Without = None,
    ablate: Ablation = False,
    publish: Published = None,
    json: Json = False,
) -> None:
    """Simulate measured runs and say how far off the predictions are."""
    if steps is None and memory is None:
        raise InputError("nothing to validate: give --steps FILE, a CSV of measured steps")
    held = None if memory is None else memory_scores(read_cells(memory, columns=("mem_kind",)))
    if steps is None:
        if fitted or ablate or publish is not None:
            raise InputError("--fit, --ablation and --publish are of steps: give --steps FILE, too")
        _answer(None, None, held, json=json)
        return
    if out is not None and not fitted:
        raise InputError(f"--out {out} without --fit: there is nothing to write, give --fit too")
    if out is not None:
        check_out(out)
    if publish is not None:
        check_out(publish, "--publish")
    without(taken_out or ())
    known = None if calibration is None else read_calibration(calibration)
    trial = Trial(known, tuple(taken_out or ()))
    rows, left_out = read_steps(steps)
    chosen = tuple(names) if names else DEFAULT
    if ablate:
        _ablate(rows, trial, chosen if fitted else None, publish, json=json)
        return
    found = _fit(calib(rows, fit_on), trial, chosen) if fitted else None
    if found is not None:
        trial = replace(trial, calibration=found.calibration)
    if found is not None and out is not None:
        write_out(out, calibration_text(found.calibration).encode())
        log(f"wrote {out}")
    board = scoreboard(rows, left_out, trial)
    if publish is not None:
        write_out(publish, to_text(scores_of(board)).encode())
        log(f"stored {publish}")
    _answer(board, found, held, json=json)


def _answer(
    board: Scoreboard | None, found: Fit | None, held: MemoryScores | None, *, json: bool
) -> None:
    if json:
        record: dict[str, Any] = {} if board is None else board_record(board)
        record |= {} if found is None else {"fit": fit_record(found)}
        print_json(record | ({} if held is None else {"memory": memory_record(held)}))
        return
    if found is not None:
        print_rows(fit_rows(found))
    if board is not None:
        print_board(board)
    if held is not None:
        print_memory(held)


def _fit(rows: tuple[StepRow, ...], trial: Trial, names: tuple[str, ...]) -> Fit:
    found, _ = predict(rows, trial)
    return fit(found, names, trial=trial, notice=_notice)


def _notice(trials: int, error: float) -> None:
    log(f"trial {trials}: mean error {error:.2%}")


def _ablate(
    rows: tuple[StepRow, ...],
    trial: Trial,
    names: tuple[str, ...] | None,
    publish: Path | None,
    *,
    json: bool,
) -> None:
    found = ablation(rows, trial, names)
    if publish is not None:
        write_out(publish, to_text(Ablations(found)).encode())
        log(f"stored {publish}")
    if json:
        print_json({"ablation": [one.record() for one in found]})
        return
    print_table(*ablation_rows(found))
