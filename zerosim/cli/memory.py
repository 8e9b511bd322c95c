"""`zerosim memory`: will it fit, and what is the largest model or batch that does."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer

from zerosim.cli.configs import From, Model, imported, origins_of
from zerosim.cli.holding import holding_record, print_holding
from zerosim.cli.options import Json, Words
from zerosim.cli.output import print_json
from zerosim.cli.states import print_states, states_record
from zerosim.errors import ScenarioError
from zerosim.memory.conventions import CONVENTIONS
from zerosim.scenario import load_scenario
from zerosim.units import read_number

MAX_PARAMS: Final = 10**18
_ASSUMED_BYTES: Final = 32 * 10**9
"""The device of the ZeRO paper."""
Source = Annotated[
    str | None,
    typer.Argument(metavar="[SCENARIO]", help="A preset, a TOML file, a run.json or a run."),
]
Params = Annotated[
    str | None,
    typer.Option(
        "--params", metavar="N", help="States of so many parameters (7e9, 7B), no scenario."
    ),
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
    str | None,
    typer.Option(
        "--memory", metavar="BYTES", help="Of a device: 80e9, 80GB (with --params: 32e9)."
    ),
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
    memory: Memory = None,
    batch: Batch = False,
    config: From = None,
    model: Model = None,
    json: Json = False,
) -> None:
    """Say what each rank holds, whether it fits, and the largest model that does.

    Of a scenario: its states and the peak of its plan, by kind. With --params: the states of every
    ZeRO stage and byte convention, nothing else.
    """
    device = None if memory is None else _whole("--memory", memory)
    given = {"memory_bytes": device, "world_size": ranks, "convention": convention}
    if (scenario is None and config is None) == (params is None):
        raise ScenarioError("a SCENARIO, --from FILE or --params N: give one of them")
    if params is not None:
        if words or batch or model:
            raise ScenarioError(
                "--set, --batch and --model-config change a scenario: give one instead of --params"
            )
        record = states_record(
            _whole("--params", params),
            ranks or 1,
            CONVENTIONS[convention or "paper"],
            3 if stage is None else stage,
            _ASSUMED_BYTES if device is None else device,
        )
        _answer(record, json=json)
        return
    if stage is not None:
        raise ScenarioError("--stage goes with --params: a scenario's schedule has its own")
    changes = [f"{field}={value}" for field, value in given.items() if value is not None]
    changes = [*(words or []), *changes]
    found = imported(scenario, config, model, changes)
    chosen = load_scenario(scenario or "", changes) if found is None else found.scenario
    record = holding_record(chosen, batch=batch)
    _answer(record | ({} if found is None else origins_of(found)), json=json)


def _whole(option: str, text: str) -> int:
    value = read_number(text)
    if value is None or not 1 <= value <= MAX_PARAMS or not value.is_integer():
        raise ScenarioError(f"{option} is {text}: give a whole number from 1 to {MAX_PARAMS:g}")
    return int(value)


def _answer(record: dict[str, Any], *, json: bool) -> None:
    if json:
        print_json(record)
    elif "conventions" in record:
        print_states(record)
    else:
        print_holding(record)
