"""Random scenarios of a schedule, carried out: the plan, what its ops take alone, and the trace."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import assume, settings
from hypothesis import strategies as st

from zerosim.engine import ENGINES
from zerosim.engine.program import Program, timed
from zerosim.errors import ScenarioError
from zerosim.plan import Op, Plan
from zerosim.scenario import Scenario, cluster_of, plan_of, run
from zerosim.schedules import SCHEDULES
from zerosim.schedules.knobs import knobs
from zerosim.trace import Trace

Draw = Callable[[st.SearchStrategy[Any]], Any]
Record = dict[str, Any]
EVERY_SCHEDULE = pytest.mark.parametrize("schedule", list(SCHEDULES))
FEW = settings(max_examples=16)
"""Twenty-five examples for each schedule: a hundred for each rule."""


@st.composite
def workloads(draw: Draw) -> Record:
    """Equal layers, or a small transformer whose root unit is used first and last."""
    model = draw(st.sampled_from(["uniform", "uniform", "gpt", "llama"]))
    sizes: Record = {
        "model": model,
        "layers": draw(st.integers(1, 4)),
        "micro_batch": draw(st.integers(1, 3)),
        "micro_batches": draw(st.integers(1, 3)),
    }
    ways = ["none", "none", "full", "selective"]
    if model == "uniform":
        sizes["checkpointing"] = draw(st.sampled_from(ways))
        return sizes | {"hidden": draw(st.integers(1, 9))}
    sizes["checkpointing"] = draw(st.sampled_from([*ways, "ops"]))
    heads = draw(st.sampled_from([1, 2, 4]))
    return sizes | {
        "hidden": heads * draw(st.integers(1, 4)),
        "heads": heads,
        "vocab": draw(st.integers(1, 40)),
        "seq": draw(st.integers(1, 5)),
        "tied": draw(st.booleans()),
        "attention": draw(st.sampled_from(["flash", "eager"])),
    }


@st.composite
def options(draw: Draw, schedule: str) -> Record:
    """Options of a schedule, far from their defaults too."""
    chosen: Record = {"name": schedule}
    for knob in knobs(SCHEDULES[schedule].options):
        values = [*knob.choices, *knob.tries, *([True, False] if bool in knob.kinds else [])]
        if values and draw(st.booleans()):
            chosen[knob.name] = draw(st.sampled_from(values))
    try:
        Scenario.from_dict({"name": "random", "schedule": chosen})
    except ScenarioError:
        assume(False)
    return chosen


@st.composite
def records(draw: Draw, schedule: str, *, engine: str | None = None, equal: bool = False) -> Record:
    """A whole scenario as a dictionary; with `equal`, no rank differs from another."""
    world_size = draw(st.integers(1, 16))
    behaviour: Record = {
        "steps": draw(st.integers(1, 2)),
        "engine": engine or draw(st.sampled_from(list(ENGINES))),
        "seed": draw(st.integers(0, 99)),
    }
    if not equal and draw(st.booleans()):
        behaviour["stragglers"] = f"{draw(st.integers(0, world_size - 1))}:1.5"
    if not equal and draw(st.integers(0, 3)) == 0:
        behaviour["jitter"] = 0.2
    record = {
        "name": "random",
        "workload": draw(workloads()),
        "schedule": draw(options(schedule)),
        "cluster": {
            "name": draw(st.sampled_from(["classroom", "dgx-h100", "dgx-2", "cpu-gloo"])),
            "world_size": world_size,
            "ranks_per_node": draw(st.sampled_from([1, 2, 4, 8])),
        },
        "numerics": {
            "dtype": draw(st.sampled_from(["float32", "bfloat16", "float64"])),
            "grad_dtype": draw(st.sampled_from([None, None, "float32", "bfloat16"])),
            "optimizer": draw(st.sampled_from(["adam", "sgd"])),
        },
        "run": behaviour,
    }
    try:
        plan_of(Scenario.from_dict(record))
    except ScenarioError:
        assume(False)  # options that do not go with so many ranks, or dtypes no engine computes in
    return record


@st.composite
def contended(draw: Draw, schedule: str) -> Record:
    """A whole scenario in which kernels take longer beside collectives, and links may be slow."""
    record: Record = draw(records(schedule))
    cluster, behaviour = record["cluster"], record["run"]
    beside = [{"overlap_tax": 0.15}, {"memory_contention": True}]
    cluster |= draw(st.sampled_from(beside))
    cluster |= {"serial_communicators": draw(st.booleans()), "link_sharing": draw(st.booleans())}
    if cluster["ranks_per_node"] > 1 and draw(st.booleans()):
        behaviour["slow_links"] = f"{draw(st.integers(0, cluster['world_size'] - 1))}:0.5"
    if draw(st.integers(0, 3)) == 0:
        behaviour["network_jitter"] = 0.2
    if draw(st.booleans()):
        behaviour["arrivals"] = "ring"
    return record


Case = tuple[Scenario, Plan, Program, Trace]


def carried_out(record: Record) -> Case:
    """A scenario, its plan, what its ops take alone, and its trace."""
    scenario = Scenario.from_dict(record)
    plan = plan_of(scenario)
    return scenario, plan, timed(plan, cluster_of(scenario)), run(scenario)


def ranks_of(plan: Plan, trace: Trace) -> Iterator[tuple[int, list[tuple[Op, int, int, int]]]]:
    """Each rank with its ops and when they were issued, began and ended, in issue order."""
    for (rank,), rows in trace.spans.group_by("rank", maintain_order=True):
        times = rows.select("issued_ns", "start_ns", "end_ns").rows()
        yield (
            int(str(rank)),
            [(op, *row) for op, row in zip(plan.ops, times, strict=True)],
        )
