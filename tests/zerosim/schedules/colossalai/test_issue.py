"""The cases of ColossalAI's issue as whole runs: who owns what, and what it costs in time."""

from __future__ import annotations

import pytest

from zerosim.analysis.balance import ownership
from zerosim.kinds import Kind
from zerosim.scenario import cluster_of, load_scenario, plan_of, run


def optimizer_elements(preset: str) -> list[int]:
    return [s.optimizer // 12 for s in run(load_scenario(preset)).meta.states]


def test_e1_five_parameters_on_eight_ranks_leave_three_without_states() -> None:
    assert optimizer_elements("five-parameters-old") == [4096 * 4096] * 5 + [0] * 3
    assert optimizer_elements("five-parameters") == [5 * 4096 * 4096 // 8] * 8


def test_e2_and_e3_the_mlp_before_and_after() -> None:
    assert optimizer_elements("mlp-old") == [131072, 65536, 32768, 512, 256, 256, 0, 0]
    assert optimizer_elements("mlp") == [28800] * 8


def test_e4_layer_drop_reduces_gathers_and_updates_four_of_six_parameters() -> None:
    ops = plan_of(load_scenario("mlp-drop", ["steps=1"])).ops
    moved = [op.elements for op in ops if op.group is not None and op.elements != 1]
    assert moved == [164608, 164608]
    (update,) = (op for op in ops if op.kind is Kind.OPTIMIZER)
    assert update.memory_bytes == 20576 * (2 + 2 * 12 + 2)


def test_the_update_of_the_old_split_takes_as_long_as_its_largest_load() -> None:
    def update_ns(preset: str) -> list[int]:
        spans = run(load_scenario(preset)).spans.rows(named=True)
        return [s["end_ns"] - s["start_ns"] for s in spans if s["name"] == "OPT" and s["step"] == 2]

    old, new = update_ns("five-parameters-old"), update_ns("five-parameters")
    assert old[5:] == [0] * 3  # nothing to update
    assert len(set(old[:5])) == len(set(new)) == 1
    launch = round(cluster_of(load_scenario("five-parameters")).device.launch_s * 1e9)
    uneven = ownership(run(load_scenario("five-parameters-old")))
    assert uneven is not None
    assert uneven.max_over_mean == 1.6
    assert (old[0] - launch) / (new[0] - launch) == pytest.approx(1.6, rel=1e-4)
