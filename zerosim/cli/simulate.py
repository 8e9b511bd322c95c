"""`zerosim simulate`: a scenario in, a summary out, and the run stored if asked."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from zerosim.analysis.summary import summarize
from zerosim.cli.options import Json, Words
from zerosim.cli.output import log, print_json, print_rows
from zerosim.cli.summary import fits_row, padding_row, summary_rows
from zerosim.partition import padded_unit
from zerosim.scenario import Scenario, cluster_of, convention_of, load_scenario, run, workload_of
from zerosim.store import save_run

Source = Annotated[
    str, typer.Argument(metavar="SCENARIO", help="A preset, a TOML file, a run.json or a run.")
]
Out = Annotated[Path | None, typer.Option("-o", "--out", metavar="RUN", help="Store the run here.")]


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("simulate")(simulate)


def simulate(scenario: Source, words: Words = None, out: Out = None, json: Json = False) -> None:
    """Simulate a scenario and print its summary."""
    chosen = load_scenario(scenario, words or [])
    trace = run(chosen)
    if out is not None:
        save_run(trace, out)
        log(f"stored {out}")
    summary = summarize(trace)
    if json:
        print_json(summary)
    else:
        fits = fits_row(summary["peak_bytes"], cluster_of(chosen).device)
        convention = ("convention", convention_of(chosen).line)
        print_rows([*summary_rows(summary), convention, fits, *_padding(chosen)])


def _padding(scenario: Scenario) -> list[tuple[str, str]]:
    if scenario.schedule.name == "ddp":
        return []
    workload = workload_of(scenario)
    padded = sum(padded_unit(unit, scenario.cluster.world_size) for unit in workload.units)
    return [padding_row(padded, workload.n_params)]
