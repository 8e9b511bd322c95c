"""`--from`: a configuration you have as a scenario, and where each of its fields is from, as text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from zerosim.cli.output import print_rows, print_table
from zerosim.configs import Imported, from_files
from zerosim.configs.draft import shown
from zerosim.errors import InputError

From = Annotated[
    Path | None,
    typer.Option("--from", metavar="FILE", help="A configuration of DeepSpeed, Accelerate, …."),
]
Model = Annotated[
    Path | None,
    typer.Option("--model-config", metavar="FILE", help="Its model, a Hugging Face config.json."),
]


def imported(
    scenario: str | None, config: Path | None, model: Path | None, words: Sequence[str]
) -> Imported | None:
    """What `--from` names, None without it. Raises InputError for options that lack another."""
    if config is None:
        if scenario is None:
            raise InputError("Missing argument 'SCENARIO': give one, or --from FILE")
        if model is not None:
            raise InputError(f"--model-config {model}: it goes with --from FILE")
        return None
    return from_files(config, model=model, base=scenario, words=words)


def origins_of(found: Imported) -> dict[str, Any]:
    """The origins as JSON: one record a field, and the keys without effect."""
    return {
        "origins": [asdict(origin) for origin in found.origins],
        "no_effect": [asdict(place) for place in found.no_effect],
    }


def print_origins(found: Imported) -> None:
    """Write a table of fields, values and origins, and what has no effect here."""
    rows: list[tuple[str, ...]] = [(o.field, _short(o.value), o.origin) for o in found.origins]
    print_table(("field", "value", "from"), rows)
    for name in dict.fromkeys(place.file for place in found.no_effect):
        keys = [f"{p.key} ({p.line})" for p in found.no_effect if p.file == name]
        print_rows([("no effect here", f"{name}: {', '.join(keys)}")])
    print_rows([("", "")])


def _short(value: object) -> str:
    return "a record" if isinstance(value, dict) else shown(value).strip("'")
