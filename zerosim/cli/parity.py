"""`zerosim parity`: peer programs, step times to the nanosecond."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from zerosim.cli.options import Json
from zerosim.cli.output import print_json, print_table
from zerosim.engine.parity import run_parity

Files = Annotated[list[Path], typer.Argument(metavar="FILE…", help="Peer programs (JSON).")]


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("parity")(parity)


def parity(files: Files, json: Json = False) -> None:
    """Run programs that a peer ran and compare times.

    The format is that of docs/parity.md. Exits 1 if any time differs.
    """
    results = [run_parity(path) for path in files]
    if json:
        print_json(
            {
                "files": [
                    {
                        "name": r.name,
                        "expected_ns": r.expected_ns,
                        "got_ns": r.got_ns,
                        "expected_by_rank": r.expected_by_rank,
                        "got_by_rank": r.got_by_rank,
                        "equal": r.equal,
                    }
                    for r in results
                ]
            }
        )
    else:
        print_table(
            ("program", "expected", "got", "equal"),
            [
                (
                    r.name,
                    "unknown" if r.expected_ns is None else f"{r.expected_ns:,} ns",
                    f"{r.got_ns:,} ns",
                    "yes" if r.equal else "no",
                )
                for r in results
            ],
        )
    if not all(r.equal for r in results):
        raise typer.Exit(1)
