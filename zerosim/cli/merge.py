"""`zerosim merge`: what the ranks of several machines left, made one run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from zerosim.analysis.summary import summarize
from zerosim.cli.options import Json
from zerosim.cli.output import log
from zerosim.cli.runtime import runtime
from zerosim.cli.summary import print_summary
from zerosim.errors import InputError
from zerosim.store import check_place, save_run

Directories = Annotated[
    list[Path], typer.Argument(metavar="DIR…", help="Directories that `zerosim trace` left.")
]
Out = Annotated[Path, typer.Option("-o", "--out", metavar="RUN", help="Store the run here.")]


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("merge")(merge)


def merge(directories: Directories, out: Out, json: Json = False) -> None:
    """Make one run of the records that ranks left, in one directory or in one a node.

    Ranks whose records are missing are named, and the run counts as unfinished.
    """
    for directory in directories:
        if not directory.is_dir():
            raise InputError(f"'{directory}' is no directory: give those that `zerosim trace` left")
    check_place(out)
    merged = runtime("node").merge_nodes(directories)
    save_run(merged, out)
    log(f"stored {out}")
    print_summary(summarize(merged), json=json)
