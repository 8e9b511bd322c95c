"""`zerosim show`: the summary of a stored run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from zerosim.analysis.summary import summarize
from zerosim.cli.options import Json
from zerosim.cli.summary import print_summary
from zerosim.store import load_run

Run = Annotated[Path, typer.Argument(metavar="RUN", help="A run directory.")]


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("show")(show)


def show(run: Run, json: Json = False) -> None:
    """Print the summary of a stored run, whoever made it."""
    print_summary(summarize(load_run(run)), json=json)
