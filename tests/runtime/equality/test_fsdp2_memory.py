"""FSDP2's buffers in the plan are those that torch's FSDPMemTracker sees, to the byte."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import orjson
import pytest

from zerosim.plan import Plan
from zerosim.scenario import plan_of
from zerosim_runtime.agents import environment
from zerosim_runtime.equality.case import Case, scenario_of
from zerosim_runtime.equality.fsdp2 import CASES

pytestmark = pytest.mark.runtime
PROGRAM = Path(__file__).with_name("tracked_program.py")
NAMES = ("mixed-precision-64", "uneven-rows-64", "replicated-mixed-64")
KINDS = {
    "all_gather": "All Gather",
    "unsharded": "Unsharded Param",
    "reduce_scatter": "Reduce Scatter",
}
Seen = dict[str, dict[str, dict[str, int]]]


@pytest.fixture(scope="module")
def tracked() -> Seen:
    done = subprocess.run(
        [sys.executable, PROGRAM, *NAMES], capture_output=True, env=environment(1), check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    found: Seen = orjson.loads(done.stdout)
    return found


def case_of(name: str) -> Case:
    return next(case for case in CASES if case.name == name)


def alive(plan: Plan, position: int) -> dict[str, int]:
    """Bytes by the tracker's kinds while the op at `position` is issued, before it frees."""
    live: dict[str, int] = {}
    for op in plan.ops[: position + 1]:
        live.update({a.key: a.nbytes for a in op.allocates})
        if op.id < position:
            for key in op.frees:
                del live[key]
    summed = dict.fromkeys(KINDS.values(), 0)
    for key, nbytes in live.items():
        kind = KINDS.get(key.split(".")[0])
        if kind is not None:
            summed[kind] += nbytes
    return summed


def position(plan: Plan, name: str, which: int = 0) -> int:
    return [op.id for op in plan.ops if op.name == name][which]


def seen(tracked: Seen, case: str, layer: str, state: str) -> dict[str, int]:
    found = tracked[case][f"{layer} {state}"]
    return {kind: found[kind] for kind in KINDS.values()}


@pytest.mark.parametrize("name", NAMES)
def test_buffers_of_every_layer_are_the_trackers_to_the_byte(tracked: Seen, name: str) -> None:
    plan = plan_of(scenario_of(case_of(name)))
    layers = [op.unit for op in plan.ops if op.step == 1 and op.name.startswith("chunk-cat")]
    for layer in (layer for layer in layers if layer not in (None, "root")):
        before = alive(plan, position(plan, f"F{layer}"))
        assert before == seen(tracked, name, str(layer), "After Pre-Forward"), layer
        backward = alive(plan, position(plan, f"B{layer}"))
        assert backward == seen(tracked, name, str(layer), "Before Post-Backward"), layer
        after = alive(plan, position(plan, f"RS{layer}"))
        assert after == seen(tracked, name, str(layer), "After Post-Backward"), layer


@pytest.mark.parametrize("name", NAMES)
def test_each_rank_stores_what_the_tracker_sees(tracked: Seen, name: str) -> None:
    stored = plan_of(scenario_of(case_of(name))).persistent[0]
    assert stored.key == "parameters"
    assert {snapshot["Sharded Param"] for snapshot in tracked[name].values()} == {stored.nbytes}
