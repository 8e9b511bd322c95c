"""`zerosim import`: other people's traces become a run, with a report on their quality."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from zerosim.analysis.summary import summarize
from zerosim.cli.options import Json
from zerosim.cli.output import log
from zerosim.cli.summary import print_summary
from zerosim.importers import read
from zerosim.store import check_place, run_path, save_run

Files = Annotated[list[Path], typer.Argument(metavar="FILE…", help="Trace files of the ranks.")]
Out = Annotated[
    Path | None,
    typer.Option("-o", "--out", metavar="RUN", help="Store the run here (runs/NAME)."),
]
Name = Annotated[str | None, typer.Option("--name", help="What to call the run.")]


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("import")(import_)


def import_(files: Files, out: Out = None, name: Name = None, json: Json = False) -> None:
    """Read traces of several ranks into one run.

    Formats: Kineto/Chrome JSON, plain or gzip. The quality report is part of the answer.
    """
    if out is not None:
        check_place(out)
    trace = read(files, name=name or (out.name if out else None))
    out = out or run_path(Path("runs"), trace.meta.name)
    save_run(trace, out)
    log(f"stored {out}")
    print_summary(summarize(trace), json=json)
