"""What a rank holds, op by op, on three layers of four elements and two ranks: all bytes by hand."""

from __future__ import annotations

import pytest

from zerosim.kinds import Kind
from zerosim.lessons.cells import COLUMNS, Held, follow
from zerosim.numerics import Numerics
from zerosim.plan import Plan
from zerosim.schedules.ddp import DdpOptions, ddp
from zerosim.schedules.zero1 import Zero1Options, zero1
from zerosim.schedules.zero2 import Zero2Options, zero2
from zerosim.schedules.zero3 import Zero3Options, zero3
from zerosim.workload import Layer, Parameter, Unit, Workload

FLOAT = Numerics(dtype="float32", grad_dtype="float32", optimizer="adam")
WORKLOAD = Workload(
    "three",
    tuple(Unit(str(i), (Parameter("w", (4,)),)) for i in range(3)),
    tuple(Layer(str(i), i, forward_flops=1, backward_flops=2, activations=5) for i in range(3)),
    tokens=1,
)
LAYER, SHARD, ACTIVATIONS = 16, 8, 20


def held(plan: Plan) -> dict[str, Held]:
    """What is held at each op; ops that come twice get a prime the second time."""
    found: dict[str, Held] = {}
    for state in follow(plan, WORKLOAD, FLOAT, step=1):
        name = state.op.name if state.op else ("start" if not found else "end")
        found[name if name not in found else f"{name}'"] = state
    return found


@pytest.fixture(name="three")
def _three() -> dict[str, Held]:
    return held(zero3(WORKLOAD, 2, FLOAT, Zero3Options()))


def column(state: Held, name: str) -> list[str]:
    return [state.cells[name, unit] for unit in "012"]


def test_zero3_states_follow_the_textbook_order(three: dict[str, Held]) -> None:
    assert " ".join(three) == ("start AG0 F0 AG1 F1 AG2 F2 B2 RS2 AG1' B1 RS1 AG0' B0 RS0 OPT end")


def test_before_the_step_a_zero3_rank_holds_a_shard_of_everything(three: dict[str, Held]) -> None:
    assert column(three["start"], "parameters") == ["shard", "shard", "shard"]
    assert column(three["start"], "optimizer") == ["shard", "shard", "shard"]
    assert column(three["start"], "gradients") == ["empty", "empty", "empty"]
    assert three["start"].nbytes["parameters"] == 3 * SHARD
    assert three["start"].nbytes["optimizer"] == 3 * 2 * SHARD  # two moments


def test_a_layer_is_full_while_it_computes_and_a_shard_afterwards(three: dict[str, Held]) -> None:
    assert column(three["AG0"], "parameters") == ["gathered", "shard", "shard"]
    assert column(three["F0"], "parameters") == ["gathered", "shard", "shard"]
    assert column(three["AG1"], "parameters") == ["shard", "gathered", "shard"]
    assert three["F0"].nbytes["gathered"] == LAYER


def test_the_last_layer_stays_gathered_for_its_backward(three: dict[str, Held]) -> None:
    assert column(three["B2"], "parameters") == ["shard", "shard", "gathered"]
    assert column(three["RS2"], "parameters") == ["shard", "shard", "shard"]


def test_gradients_are_local_then_moving_then_a_shard(three: dict[str, Held]) -> None:
    assert column(three["B2"], "gradients") == ["empty", "empty", "local"]
    assert column(three["RS2"], "gradients") == ["empty", "empty", "moving"]
    assert column(three["B1"], "gradients") == ["empty", "local", "shard"]
    assert column(three["OPT"], "gradients") == ["shard", "shard", "shard"]
    assert column(three["end"], "gradients") == ["empty", "empty", "empty"]


def test_while_a_bucket_travels_its_buffer_and_the_shard_are_held(three: dict[str, Held]) -> None:
    assert three["RS2"].nbytes["buckets"] == LAYER
    assert three["RS2"].nbytes["gradients"] == SHARD


def test_activations_are_kept_from_forward_to_backward(three: dict[str, Held]) -> None:
    assert column(three["F1"], "activations") == ["kept", "kept", "empty"]
    assert column(three["B2"], "activations") == ["kept", "kept", "kept"]
    assert column(three["RS2"], "activations") == ["kept", "kept", "empty"]
    assert three["B2"].nbytes["activations"] == 3 * ACTIVATIONS


def test_a_step_leaves_the_memory_as_it_found_it(three: dict[str, Held]) -> None:
    assert three["end"].nbytes == three["start"].nbytes
    assert three["end"].cells == three["start"].cells


def test_zero2_parameters_are_stale_between_the_update_and_their_gather() -> None:
    two = held(zero2(WORKLOAD, 2, FLOAT, Zero2Options()))
    assert column(two["OPT"], "parameters") == ["full", "full", "full"]
    assert column(two["AG0"], "parameters") == ["gathered", "stale", "stale"]
    assert column(two["AG2"], "parameters") == ["full", "full", "gathered"]
    assert column(two["end"], "parameters") == ["full", "full", "full"]


def test_zero2_keeps_only_its_shard_of_the_sum_and_zero1_the_local_gradients_too() -> None:
    two = held(zero2(WORKLOAD, 2, FLOAT, Zero2Options()))
    one = held(zero1(WORKLOAD, 2, FLOAT, Zero1Options()))
    assert column(two["B1"], "gradients") == ["empty", "local", "shard"]
    assert column(one["B1"], "gradients") == ["empty", "local", "both"]
    assert two["OPT"].nbytes["gradients"] == 3 * SHARD
    assert one["OPT"].nbytes["gradients"] == 3 * (SHARD + LAYER)


def test_ddp_holds_everything_and_sums_whole_gradients() -> None:
    alone = held(ddp(WORKLOAD, 2, FLOAT, DdpOptions(bucket_bytes=LAYER)))
    assert column(alone["start"], "parameters") == ["full", "full", "full"]
    assert column(alone["start"], "optimizer") == ["full", "full", "full"]
    assert column(alone["AR2"], "gradients") == ["empty", "empty", "moving"]
    assert column(alone["OPT"], "gradients") == ["summed", "summed", "summed"]
    assert alone["start"].nbytes["optimizer"] == 3 * 2 * LAYER


def test_a_bucket_of_several_layers_moves_them_all() -> None:
    apart = held(ddp(WORKLOAD, 2, FLOAT, DdpOptions(bucket_bytes=LAYER)))
    whole = held(ddp(WORKLOAD, 2, FLOAT, DdpOptions()))
    assert "AR2-0" in whole
    assert column(whole["AR2-0"], "gradients") == ["moving", "moving", "moving"]
    assert set(apart) - set(whole) == {"AR2", "AR1", "AR0"}


def test_every_cell_is_there_in_every_state(three: dict[str, Held]) -> None:
    keys = {(name, unit) for name in COLUMNS for unit in "012"}
    assert all(set(state.cells) == keys for state in three.values())


def test_copies_into_buckets_are_no_states_of_their_own(three: dict[str, Held]) -> None:
    assert all(s.op is None or s.op.kind is not Kind.FILL for s in three.values())
