"""`zerosim show`: the summary of a stored run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from zerosim.analysis.summary import summarize
from zerosim.cli.notes import notes
from zerosim.cli.options import Json
from zerosim.cli.output import print_json, print_rows
from zerosim.cli.summary import summary_rows
from zerosim.store import load_run

Run = Annotated[Path, typer.Argument(metavar="RUN", help="A run directory.")]


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("show")(show)


def show(run: Run, json: Json = False) -> None:
    """Print the summary of a stored run, whoever made it."""
    trace = load_run(run)
    summary = summarize(trace)
    if json:
        print_json(summary)
    else:
        print_rows([*summary_rows(summary), *notes(trace, summary)])
