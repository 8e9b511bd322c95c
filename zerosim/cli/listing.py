"""`zerosim list`: presets, schedules and the knobs of one, machines, conventions, engines, runs."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from zerosim.cli.machines import machine_rows, print_machine, print_machines
from zerosim.cli.options import Json, Library
from zerosim.cli.output import print_json, print_table
from zerosim.engine import ENGINES
from zerosim.errors import RunError
from zerosim.memory.conventions import CONVENTIONS
from zerosim.registry import Registry
from zerosim.scenario import PRESETS, load_scenario, workload_of
from zerosim.schedules import SCHEDULES
from zerosim.schedules.knobs import knobs
from zerosim.store import list_runs
from zerosim.units import format_count

What = Annotated[
    str,
    typer.Argument(
        metavar="WHAT", help="presets, schedules, machines, conventions, engines or runs."
    ),
]

Name = Annotated[
    str | None,
    typer.Argument(
        metavar="NAME", help="Only this one; of a schedule, its options, of a machine, its sources."
    ),
]


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("list")(list_)


def list_(
    what: What, name: Name = None, library: Library = Path("runs"), json: Json = False
) -> None:
    """List what there is, with what it is; of one schedule its options, of one machine its sources."""
    rows = _LISTS[what](library)
    if name is not None:
        rows = [Registry(what.removesuffix("s"), {row["name"]: row for row in rows})[name]]
    if json:
        print_json({what: rows})
    elif what in ("clusters", "machines"):
        print_machines(rows) if name is None else print_machine(rows[0])
    elif what == "schedules":
        _print(_shortened(rows) if name is None else _options(name))
    else:
        _print(rows)


def _print(rows: list[dict[str, Any]]) -> None:
    if rows:
        header = tuple(rows[0])
        print_table(header, [tuple(_shown(row[name]) for name in header) for row in rows])


def _shown(value: object) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "none"}[value]
    return str(value)


def _shortened(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Schedules without their options, which `zerosim list schedules NAME` has."""
    return [{key: row[key] for key in ("name", "summary")} for row in rows]


def _options(schedule: str) -> list[dict[str, Any]]:
    return [
        {
            "option": knob.name,
            "default": "(empty)" if knob.default == "" else knob.default,
            "unit": knob.unit,
            "meaning": knob.says,
        }
        for knob in knobs(SCHEDULES[schedule].options)
    ]


def _presets(_library: Path) -> list[dict[str, Any]]:
    rows = []
    for name in PRESETS:
        scenario = load_scenario(name)
        rows.append(
            {
                "name": name,
                "model": scenario.workload.model,
                "parameters": format_count(workload_of(scenario).n_params),
                "schedule": scenario.schedule.name,
                "cluster": scenario.cluster.name,
                "world_size": scenario.cluster.world_size,
            }
        )
    return rows


def _schedules(_library: Path) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "summary": SCHEDULES[name].summary,
            "options": ", ".join(f"{k}={v}" for k, v in asdict(SCHEDULES[name].options()).items()),
        }
        for name in SCHEDULES
    ]


def _conventions(_library: Path) -> list[dict[str, Any]]:
    return [
        {
            "name": c.name,
            "bytes": f"{c.parameters} + {c.gradients} + {c.optimizer}",
            "says": c.says,
            "source": c.source,
        }
        for c in CONVENTIONS.entries.values()
    ]


def _engines(_library: Path) -> list[dict[str, Any]]:
    return [{"name": name} for name in ENGINES]


def _runs(library: Path) -> list[dict[str, Any]]:
    if library.exists() and not library.is_dir():
        raise RunError(f"'{library}' is no directory of runs: give one with --library")
    return [
        {
            "name": stored.id,
            "source": None if stored.meta is None else stored.meta.source,
            "world_size": None if stored.meta is None else stored.meta.world_size,
            "finished": None if stored.meta is None else stored.meta.finished,
            "problem": stored.problem,
        }
        for stored in list_runs(library)
    ]


_LISTS: Final = Registry(
    "list",
    {
        "presets": _presets,
        "schedules": _schedules,
        "clusters": machine_rows,
        "machines": machine_rows,
        "conventions": _conventions,
        "engines": _engines,
        "runs": _runs,
    },
)
