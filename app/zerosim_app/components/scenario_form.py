"""The form of a scenario: where it starts from, the knobs of its schedule, and what is turned most."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cache
from typing import Any, Final

import dash_mantine_components as dmc
from dash import html

from zerosim.collectives import COLLECTIVES
from zerosim.engine import ARRIVALS
from zerosim.hardware import GENERATIONS, MACHINES
from zerosim.memory.conventions import CONVENTIONS
from zerosim.scenario import PRESETS, Scenario, load_scenario, workload_of
from zerosim.scenario.codec import SECTIONS
from zerosim.scenario.sections import ATTENTIONS, CHECKPOINTING
from zerosim.schedules import SCHEDULES
from zerosim.schedules.knobs import knobs
from zerosim.units import DTYPE_BYTES
from zerosim_app.components import engines
from zerosim_app.components.cards import panel
from zerosim_app.components.controls import Field, control


@dataclass(frozen=True, slots=True)
class Listed:
    """A field of the scenario's other sections that the form has: where, what it means, its choices.

    `listed`: only for models that are a list of parameters, or only for others; none: for all.
    `grouped`: choices under headings, each with a line about it.
    """

    path: str
    says: str
    unit: str = ""
    choices: tuple[Any, ...] = ()
    listed: bool | None = None
    grouped: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = ()


def machines() -> tuple[tuple[str, tuple[tuple[str, str], ...]], ...]:
    """The machines by generation, each with what a node of it is."""
    found: dict[str, list[tuple[str, str]]] = {label: [] for label in GENERATIONS.values()}
    for machine in MACHINES.entries.values():
        found[GENERATIONS[machine.device.architecture]].append((machine.name, machine.says))
    return tuple((label, tuple(choices)) for label, choices in found.items())


FIELDS: Final = (
    Listed("workload.sizes", "elements of each parameter, layer by layer", listed=True),
    Listed("workload.layers", "layers, or blocks of a transformer", "layers", listed=False),
    Listed("workload.hidden", "width of a layer", "elements", listed=False),
    Listed("workload.seq", "tokens of a sequence", "tokens"),
    Listed("workload.micro_batch", "sequences of a rank and micro-batch", "sequences"),
    Listed("workload.micro_batches", "micro-batches of a step (gradient accumulation)"),
    Listed("workload.checkpointing", "activation checkpointing", choices=CHECKPOINTING),
    Listed("workload.attention", "whether attention keeps its scores", choices=ATTENTIONS),
    Listed("cluster.name", "the machine", grouped=machines()),
    Listed("cluster.world_size", "ranks that share the model", "ranks"),
    Listed(
        "numerics.convention",
        "byte convention; sets dtypes and optimizer, which override it",
        choices=tuple(CONVENTIONS),
    ),
    Listed("numerics.dtype", "parameters as they compute", choices=tuple(DTYPE_BYTES)[:4]),
    Listed("numerics.storage_dtype", "parameters as they are stored; none: as they compute"),
    Listed("numerics.reduce_dtype", "gradients as they are reduced; none: as they are made"),
    Listed("numerics.optimizer", "optimizer, with a float32 master copy of 16-bit parameters"),
    Listed(
        "cluster.sm_contention",
        "whether collectives leave kernels fewer SMs; none: as the machine",
        choices=(True, False),
    ),
    Listed(
        "cluster.memory_contention",
        "whether they leave less memory bandwidth; none: as the machine",
        choices=(True, False),
    ),
    Listed(
        "cluster.overlap_tax",
        "in place of both, the share of their speed that kernels lose beside a collective",
    ),
    Listed(
        "cluster.link_sharing",
        "whether transfers at once share a link; none: as the machine",
        choices=(True, False),
    ),
    Listed(
        "cluster.serial_communicators",
        "whether collectives of a communicator run one at a time; none: as the machine",
        choices=(True, False),
    ),
    Listed(
        "cluster.collectives",
        "model of a collective's time; none: the machine's",
        choices=tuple(COLLECTIVES),
    ),
    Listed(
        "run.arrivals",
        "whether a collective waits for all ranks, or a ring hands on what has come",
        choices=tuple(ARRIVALS),
    ),
    Listed("run.stragglers", "ranks that compute longer, as RANK:FACTOR, e.g. 3:1.3"),
    Listed(
        "run.slow_links", "links with a share of their rate, e.g. node1:0.5 or, of a rank, 3:0.5"
    ),
    Listed("run.jitter", "spread of each kernel on each rank", "share"),
    Listed("run.network_jitter", "spread of each collective", "share"),
    Listed("run.seed", "what jitter is drawn from"),
    Listed("run.ledger", "memory as real ranks book it", choices=("true",)),
    Listed("run.allocator", "whether reserved memory is followed", choices=("caching",)),
    Listed("run.steps", "training steps; engines warm up in the first", "steps"),
)


def choice(preset: str, scenario: Scenario) -> html.Section:
    """The preset it starts from, its schedule, and what that schedule's engine does."""
    schedule = scenario.schedule.name
    return panel(
        "Scenario",
        html.Div(
            [
                dmc.Select(
                    id="sim-preset", label="Start from", data=list(_presets()), value=preset,
                    searchable=True, allowDeselect=False, maxDropdownHeight=420,
                    renderOption={"function": "zsOption"},
                ),
                dmc.Select(
                    id="sim-schedule", label="Schedule", data=engines.choices(SCHEDULES),
                    value=schedule, searchable=True, allowDeselect=False, maxDropdownHeight=420,
                    renderOption={"function": "zsOption"},
                ),
            ],
            className="zs-two",
        ),
        _told(schedule),
    )  # fmt: skip


def _told(schedule: str) -> html.P:
    """Who made the engine, what it does, and where the docs say more."""
    known = engines.TOLD.get(schedule)
    summary = SCHEDULES[schedule].summary
    told: list[str | html.Strong | html.Code] = [
        html.Strong(f"{summary[:1].upper()}{summary[1:]}. ")
    ]
    if known is not None:
        told += [known.does, " More in ", html.Code(f"docs/{known.page}"), "."]
    return html.P(told, className="zs-told")


@cache
def _presets() -> tuple[dict[str, str], ...]:
    """The presets, each with its model, machine and schedule in a few words."""
    return tuple({"value": name, "label": name, "says": _in_short(name)} for name in PRESETS)


def _in_short(preset: str) -> str:
    scenario = load_scenario(preset)
    work, cluster = scenario.workload, scenario.cluster
    model = f"{work.layers} layers"
    if work.model == "parameters":
        units = workload_of(scenario).units
        model = f"{sum(len(unit.parameters) for unit in units)} parameters"
    ranks = f"{cluster.world_size} ranks of {cluster.name}"
    return f"{model}, {ranks}, {scenario.schedule.name}"


def knobs_of(scenario: Scenario) -> html.Section:
    """The knobs of the scenario's schedule."""
    section = scenario.schedule
    given = SCHEDULES[section.name].options(**section.options)
    found = knobs(SCHEDULES[section.name].options)
    rows = [
        control(
            Field(
                f"schedule.{knob.name}",
                knob.says,
                knob.default,
                getattr(given, knob.name),
                knob.unit,
                knob.kinds,
                knob.choices,
            )
        )
        for knob in found
    ]
    return panel("Knobs of the schedule", *rows, note=f"{len(found)} of {section.name}")


def rest(scenario: Scenario) -> html.Section:
    """The fields of model, machine, numerics and run that are turned most."""
    record = scenario.to_dict()
    rows = []
    listed = scenario.workload.model == "parameters"
    for shown in FIELDS:
        if shown.listed is not None and shown.listed != listed:
            continue
        section, _, name = shown.path.partition(".")
        default = next(f.default for f in fields(SECTIONS[section]) if f.name == name)
        value = record[section].get(name)
        rows.append(
            control(
                Field(
                    shown.path,
                    shown.says,
                    default,
                    value,
                    shown.unit,
                    choices=shown.choices,
                    grouped=shown.grouped,
                )
            )
        )
    return panel("Model, machine and numerics", *rows)
