"""`zerosim simulate`: a scenario in, a summary out, and the run stored if asked."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from zerosim.analysis.summary import summarize
from zerosim.cli.configs import From, Model, imported, origins_of, print_origins
from zerosim.cli.notes import notes
from zerosim.cli.options import Json, Words
from zerosim.cli.output import log, print_json, print_rows
from zerosim.cli.summary import fits_row, padding_row, summary_rows
from zerosim.scenario import (
    Scenario,
    cluster_of,
    convention_of,
    load_scenario,
    numerics_of,
    run,
    workload_of,
)
from zerosim.schedules import SCHEDULES
from zerosim.store import save_run
from zerosim.validation.band import error_band, says

Source = Annotated[
    str | None,
    typer.Argument(metavar="SCENARIO", help="A preset, a TOML file, a run.json or a run."),
]
Constants = Annotated[
    Path | None,
    typer.Option(
        "--calibration", metavar="FILE", help="Constants in the place of the shipped ones."
    ),
]
Out = Annotated[Path | None, typer.Option("-o", "--out", metavar="RUN", help="Store the run here.")]


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("simulate")(simulate)


def simulate(
    scenario: Source = None,
    config: From = None,
    model: Model = None,
    words: Words = None,
    calibration: Constants = None,
    out: Out = None,
    json: Json = False,
) -> None:
    """Simulate a scenario, or a configuration you have, and print its summary."""
    changes = [*(words or []), *_constants(calibration)]
    found = imported(scenario, config, model, changes)
    chosen = load_scenario(str(scenario), changes) if found is None else found.scenario
    trace = run(chosen)
    if out is not None:
        save_run(trace, out)
        log(f"stored {out}")
    summary, band = summarize(trace), error_band(chosen)
    if json:
        answer = summary | {"error_band": None if band is None else asdict(band)}
        print_json(answer | ({} if found is None else origins_of(found)))
    else:
        if found is not None:
            print_origins(found)
        fits = fits_row(summary["peak_bytes"], cluster_of(chosen).device)
        convention = ("convention", convention_of(chosen).line)
        run_, order, step, *rest = summary_rows(summary)
        rows = [run_, order, step, ("error band", says(band)), *rest]
        print_rows([*rows, convention, fits, *_padding(chosen), *notes(trace, summary)])


def _constants(calibration: Path | None) -> list[str]:
    return [] if calibration is None else [f"cluster.calibration={calibration}"]


def _padding(scenario: Scenario) -> list[tuple[str, str]]:
    schedule = SCHEDULES[scenario.schedule.name]
    if schedule.padded is None:
        return []
    workload, options = workload_of(scenario), schedule.options(**scenario.schedule.options)
    padded = schedule.padded(workload, scenario.cluster.world_size, numerics_of(scenario), options)
    return [padding_row(padded, workload.n_params)]
