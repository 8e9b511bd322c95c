"""`zerosim runs`: list, rename or delete stored runs."""

from __future__ import annotations

from pathlib import Path

import typer

from zerosim.cli.listing import list_
from zerosim.cli.options import Json, Library
from zerosim.cli.output import log, print_json
from zerosim.store import delete_run, find_run, rename_run


def register(app: typer.Typer) -> None:
    """Add the verb and its sub-verbs."""
    group = typer.Typer(no_args_is_help=True, help="List, rename or delete stored runs.")
    group.command("list")(list_runs)
    group.command("rename")(rename)
    group.command("delete")(delete)
    app.add_typer(group, name="runs")


def list_runs(library: Library = Path("runs"), json: Json = False) -> None:
    """List the runs of a library."""
    list_("runs", library=library, json=json)


def rename(run: str, name: str, library: Library = Path("runs"), json: Json = False) -> None:
    """Give a run another name."""
    path = rename_run(find_run(library, run), name)
    log(f"renamed {run} to {path.name}")
    if json:
        print_json({"run": str(path)})


def delete(run: str, library: Library = Path("runs"), json: Json = False) -> None:
    """Delete a run."""
    delete_run(find_run(library, run))
    log(f"deleted {run}")
    if json:
        print_json({"deleted": run})
