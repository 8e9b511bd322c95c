"""`zerosim validate`: predicted beside measured, scored; constants fitted; mechanisms taken out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from zerosim.cli.collective_board import collective_record, print_collectives
from zerosim.cli.files import check_out, write_out
from zerosim.cli.memory_board import memory_record, print_memory
from zerosim.cli.options import Json
from zerosim.cli.output import log, print_json, print_rows, print_table
from zerosim.cli.scoreboard import ablation_rows, board_record, fit_record, fit_rows, print_board
from zerosim.errors import InputError
from zerosim.figures.cloud_svg import cloud_svg
from zerosim.hardware.calibration import calibration_text, read_calibration
from zerosim.validation.ablation import ablation
from zerosim.validation.board import Scoreboard, scoreboard
from zerosim.validation.carried import carried_collectives
from zerosim.validation.carried_memory import carried_memory
from zerosim.validation.carried_steps import carried_steps
from zerosim.validation.cells import Cells, read_cells
from zerosim.validation.collective_rows import Rows, read_rows
from zerosim.validation.collectives import CollectiveScores, collective_scores
from zerosim.validation.collectives import LeftOut as CollectiveLeftOut
from zerosim.validation.constants import DEFAULT, NAMES
from zerosim.validation.fit import Fit, fit
from zerosim.validation.mechanisms import MECHANISMS, without
from zerosim.validation.memory import MemoryScores, memory_scores
from zerosim.validation.predict import predict
from zerosim.validation.published import Ablations, scores_of
from zerosim.validation.records import to_text
from zerosim.validation.rows import StepRow, calib, read_steps, step_rows
from zerosim.validation.trial import Trial

Steps = Annotated[
    Path | None, typer.Option("--steps", metavar="FILE", help="Measured steps, a CSV.")
]
Collectives = Annotated[
    Path | None,
    typer.Option("--collectives", metavar="FILE", help="Measured collectives, a CSV."),
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
Plot = Annotated[
    Path | None,
    typer.Option("--plot", metavar="FILE", help="Draw predicted against measured steps, as SVG."),
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
    collectives: Collectives = None,
    memory: Memory = None,
    calibration: Given = None,
    fitted: Fitted = False,
    names: Names = None,
    fit_on: FitOn = None,
    out: Out = None,
    taken_out: Without = None,
    ablate: Ablation = False,
    publish: Published = None,
    plot: Plot = None,
    json: Json = False,
) -> None:
    """Simulate measured runs and say how far off the predictions are.

    Without a file: all that zerosim carries.
    """
    _check(steps, fitted=fitted, out=out, publish=publish, plot=plot)
    if not fitted and (names or fit_on):
        raise InputError("--constant and --fit-on are for a fit: give --fit too, or leave them out")
    known = None if calibration is None else read_calibration(calibration)
    trial = Trial(known, tuple(taken_out or ()))
    without(trial.without)
    carried = steps is None and collectives is None and memory is None
    rows, left_out = step_rows(carried_steps()) if steps is None else read_steps(steps)
    moves = None if collectives is None else read_rows(collectives)
    holds = None if memory is None else read_cells(memory, columns=("mem_kind",))
    chosen = tuple(names) if names else DEFAULT
    if ablate:
        _ablate(rows, trial, chosen if fitted else None, publish, json=json)
        return
    found = _fit(calib(rows, fit_on), trial, chosen, out) if fitted else None
    if found is not None:
        trial = replace(trial, calibration=found.calibration)
    wanted = carried or steps or fitted or publish or plot
    board = scoreboard(rows, left_out, trial) if wanted else None
    if board is not None and publish is not None:
        write_out(publish, to_text(scores_of(board, carried=steps is None)).encode())
        log(f"stored {publish}")
    if board is not None and plot is not None:
        write_out(plot, cloud_svg(board.rows).encode())
        log(f"drew {plot}")
    moved = _collectives(moves, trial, carried=carried)
    held = _memory(holds, carried=carried)
    _answer(board, found, moved, held, json=json)


def _check(
    steps: Path | None,
    *,
    fitted: bool,
    out: Path | None,
    publish: Path | None,
    plot: Path | None,
) -> None:
    """Refuse what cannot be written, before minutes are spent. Raises InputError."""
    if out is not None and not fitted:
        raise InputError(f"--out {out} without --fit: there is nothing to write, give --fit too")
    for path, option in ((out, "--out"), (publish, "--publish"), (plot, "--plot")):
        if path is not None:
            check_out(path, option)
    if steps is not None and steps.is_dir():
        raise InputError(f"--steps {steps} is a directory: name a CSV of measured steps")


def _collectives(given: Rows | None, trial: Trial, *, carried: bool) -> CollectiveScores | None:
    if given is None and not carried:
        return None
    rows = carried_collectives() if given is None else given
    scores = collective_scores(rows.rows, trial.calibration)
    unread = tuple(CollectiveLeftOut(row, series, "", why) for row, series, why in rows.left_out)
    return replace(scores, left_out=(*unread, *scores.left_out))


def _memory(given: tuple[Cells, ...] | None, *, carried: bool) -> MemoryScores | None:
    if given is None:
        return memory_scores(carried_memory()) if carried else None
    return memory_scores(given)


def _answer(
    board: Scoreboard | None,
    found: Fit | None,
    moved: CollectiveScores | None,
    held: MemoryScores | None,
    *,
    json: bool,
) -> None:
    if json:
        record: dict[str, Any] = {} if board is None else board_record(board)
        record |= {} if found is None else {"fit": fit_record(found)}
        record |= {} if moved is None else {"collectives": collective_record(moved)}
        print_json(record | ({} if held is None else {"memory": memory_record(held)}))
        return
    if found is not None:
        print_rows(fit_rows(found))
    if board is not None:
        print_board(board)
    if moved is not None:
        print_collectives(moved)
    if held is not None:
        print_memory(held)


def _fit(rows: tuple[StepRow, ...], trial: Trial, names: tuple[str, ...], out: Path | None) -> Fit:
    found = fit(predict(rows, trial)[0], names, trial=trial, notice=_notice)
    if out is not None:
        write_out(out, calibration_text(found.calibration).encode())
        log(f"wrote {out}")
    return found


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
