"""`zerosim memory`: will it fit, and what is the largest model or batch that does."""

from __future__ import annotations

import math
from typing import Annotated, Any, Final

import typer

from zerosim.cli.holding import holding_record, print_holding
from zerosim.cli.options import Json, Words
from zerosim.cli.output import print_json
from zerosim.cli.states import print_states, states_record
from zerosim.errors import ScenarioError
from zerosim.memory.conventions import CONVENTIONS
from zerosim.scenario import load_scenario

MAX_PARAMS: Final = 10**18
Source = Annotated[
    str | None,
    typer.Argument(metavar="[SCENARIO]", help="A preset, a TOML file, a run.json or a run."),
]
Params = Annotated[
    float | None, typer.Option("--params", help="States of so many parameters, no scenario.")
]
Ranks = Annotated[
    int | None, typer.Option("--ranks", min=1, max=2**20, help="Ranks to split over.")
]
Stage = Annotated[
    int | None,
    typer.Option("--stage", min=0, max=3, help="ZeRO stage to report (with --params: 3)."),
]
Named = Annotated[
    str | None, typer.Option("--convention", metavar="NAME", help="Byte convention (paper).")
]
Memory = Annotated[
    float | None, typer.Option("--memory", help="Bytes of a device (with --params: 32e9).")
]
Batch = Annotated[
    bool, typer.Option("--batch", help="Also find the largest micro-batch that fits.")
]


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("memory")(memory)


def memory(
    scenario: Source = None,
    words: Words = None,
    params: Params = None,
    ranks: Ranks = None,
    stage: Stage = None,
    convention: Named = None,
    memory_bytes: Memory = None,
    batch: Batch = False,
    json: Json = False,
) -> None:
    """Say what each rank holds, whether it fits, and the largest model that does.

    Of a scenario: its states and the peak of its plan, by kind. With --params: the states of every
    ZeRO stage and byte convention, nothing else.
    """
    given = {"memory_bytes": memory_bytes, "world_size": ranks, "convention": convention}
    if (scenario is None) == (params is None):
        raise ScenarioError("a SCENARIO or --params N: give one of the two")
    if params is not None:
        if words or batch:
            raise ScenarioError("--set and --batch change a scenario: give one instead of --params")
        record = states_record(
            _whole("--params", params),
            ranks or 1,
            CONVENTIONS[convention or "paper"],
            3 if stage is None else stage,
            _whole("--memory", 32e9 if memory_bytes is None else memory_bytes),
        )
        _answer(record, json=json)
        return
    if stage is not None:
        raise ScenarioError("--stage goes with --params: a scenario's schedule has its own")
    changes = [f"{field}={value}" for field, value in given.items() if value is not None]
    chosen = load_scenario(scenario or "", [*(words or []), *changes])
    _answer(holding_record(chosen, batch=batch), json=json)


def _whole(option: str, value: float) -> int:
    if not math.isfinite(value) or not 1 <= value <= MAX_PARAMS or value != int(value):
        raise ScenarioError(f"{option} is {value:g}: give a whole number from 1 to {MAX_PARAMS:g}")
    return int(value)


def _answer(record: dict[str, Any], *, json: bool) -> None:
    if json:
        print_json(record)
    elif "conventions" in record:
        print_states(record)
    else:
        print_holding(record)
