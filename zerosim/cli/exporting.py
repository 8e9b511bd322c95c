"""`zerosim export`: a stored run as a file of another tool."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from zerosim.cli.options import Json
from zerosim.cli.output import print_json, print_rows
from zerosim.exporters import EXPORTERS, export
from zerosim.store import load_run

Run = Annotated[Path, typer.Argument(metavar="RUN", help="A run directory.")]
To = Annotated[str, typer.Option("--to", metavar="FORMAT", help=f"{', '.join(EXPORTERS)}.")]
Out = Annotated[
    Path,
    typer.Option(
        "-o", "--out", metavar="FILE", help="Write it here, in the place of what is there."
    ),
]


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("export")(export_)


def export_(run: Run, to: To, out: Out, json: Json = False) -> None:
    """Write a run for another tool.

    Of a big run whose equal ranks are kept once, each class of ranks is written once, too.
    With --to chrome, FILE.json or FILE.json.gz holds all ranks; any other name is a directory with
    one file a rank, as HTA wants it. With --to csv or parquet, a name with a suffix is a file of the
    spans; one without is a directory with spans and samples.
    """
    EXPORTERS[to]  # before the run is read
    trace = load_run(run)
    export(trace, to, out)
    if json:
        print_json({"path": str(out), "format": to, "spans": trace.spans.height})
    else:
        print_rows([("written", str(out)), ("spans", str(trace.spans.height))])
