"""Options that several verbs share, spelled once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object in base units.")]
Library = Annotated[Path, typer.Option("--library", help="The directory of the runs.")]
Words = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="FIELD=VALUE", help="Change a field; may be repeated."),
]
