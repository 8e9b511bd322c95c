"""What a plan's allocations reserve: streams, waiting, moments, ranks that differ, a full device."""

from __future__ import annotations

from dataclasses import replace

import pytest

from zerosim.kinds import Kind, Reuse
from zerosim.memory.footprint import heaviest
from zerosim.memory.reserved import reserved
from zerosim.plan import Allocation, Axis, Plan, PlanWriter, uneven
from zerosim.scenario import load_scenario, plan_of

MIB = 2**20


def planned(writer: PlanWriter, *held: Allocation, n_ranks: int = 1) -> Plan:
    return Plan("p", n_ranks, tuple(writer.ops), (Axis("world", n_ranks),), held)


def buffer(key: str, mib: int) -> tuple[Allocation, ...]:
    return (Allocation(key, "buckets", mib * MIB),)


def crossing(*, wait: bool) -> Plan:
    """A copy's buffer that an op of the compute stream drops, and a second copy, which may wait."""
    writer = PlanWriter()
    first = writer.compute(Kind.COPY, "0", stream="copy", allocates=buffer("0", 30))
    used = writer.compute(Kind.FORWARD, "0", after=(first,), frees=("0",))
    writer.compute(
        Kind.COPY, "1", stream="copy", after=(used,) if wait else (), allocates=buffer("1", 30)
    )
    return planned(writer)


def test_a_stream_takes_its_own_blocks_again_at_once() -> None:
    writer = PlanWriter()
    writer.compute(Kind.FORWARD, "0", allocates=buffer("0", 30), frees=("0",))
    writer.compute(Kind.FORWARD, "1", allocates=buffer("1", 30))
    result = reserved(planned(writer))
    assert result.changes == ((0, 30 * MIB),)
    assert result.peak_bytes == 30 * MIB


def test_a_block_that_another_stream_dropped_is_not_taken_before_that_must_be_over() -> None:
    assert reserved(crossing(wait=False)).peak_bytes == 60 * MIB


def test_it_is_taken_by_an_op_that_waits_for_the_other_stream() -> None:
    assert reserved(crossing(wait=True)).peak_bytes == 30 * MIB


@pytest.mark.parametrize("reuse", [Reuse.ORDERED, Reuse.RECORDED])
def test_it_is_taken_if_the_other_op_has_ended_by_then(reuse: Reuse) -> None:
    plan = replace(crossing(wait=False), reuse=reuse)
    still_running, over = ((0, 1, 2), (5, 9, 12)), ((0, 1, 9), (5, 9, 12))
    assert reserved(plan, moments=still_running).peak_bytes == 60 * MIB
    assert reserved(plan, moments=over).peak_bytes == 30 * MIB


def test_what_is_recorded_waits_for_its_end_even_if_the_stream_would_wait() -> None:
    # The host asks the event; that the streams are ordered does not help (FSDP1, DeepSpeed).
    plan = replace(crossing(wait=True), reuse=Reuse.RECORDED)
    assert reserved(plan).peak_bytes == 60 * MIB


def test_what_is_dropped_is_taken_at_once() -> None:
    plan = replace(crossing(wait=False), reuse=Reuse.DROPPED)
    assert reserved(plan).peak_bytes == 30 * MIB


@pytest.mark.parametrize("reuse", [Reuse.ORDERED, Reuse.RECORDED])
def test_what_the_host_has_waited_for_is_over(reuse: Reuse) -> None:
    writer = PlanWriter()
    first = writer.compute(Kind.COPY, "0", stream="copy", allocates=buffer("0", 30))
    used = writer.compute(Kind.FORWARD, "0", after=(first,), frees=("0",))
    writer.wait((used,))
    writer.compute(Kind.COPY, "1", stream="copy", allocates=buffer("1", 30))
    assert reserved(replace(planned(writer), reuse=reuse)).peak_bytes == 30 * MIB


def test_collectives_of_one_communicator_wait_for_each_other() -> None:
    writer = PlanWriter()
    writer.collective(Kind.ALL_GATHER, "0", elements=4, dtype="float32", allocates=buffer("0", 30))
    writer.collective(Kind.REDUCE_SCATTER, "0", elements=4, dtype="float32", frees=("0",))
    writer.collective(Kind.ALL_GATHER, "1", elements=4, dtype="float32", allocates=buffer("1", 30))
    assert reserved(planned(writer)).peak_bytes == 30 * MIB


def test_what_is_held_throughout_is_reserved_first() -> None:
    writer = PlanWriter()
    writer.compute(Kind.FORWARD, "0", allocates=buffer("0", 0))
    result = reserved(planned(writer, Allocation("parameters", "parameters", 11 * MIB)))
    assert result.changes == ((-1, 12 * MIB),)


def test_ranks_that_hold_more_reserve_more() -> None:
    writer = PlanWriter()
    writer.compute(Kind.FORWARD, "0")
    held = uneven("optimizer", "optimizer", [0, 30 * MIB])
    plan = planned(writer, held, n_ranks=2)
    assert [reserved(plan, rank).peak_bytes for rank in (0, 1)] == [0, 30 * MIB]


def test_a_full_device_gives_back_before_it_is_over_its_limit() -> None:
    writer = PlanWriter()
    writer.compute(Kind.FORWARD, "0", allocates=buffer("0", 30), frees=("0",))
    writer.compute(Kind.FORWARD, "1", allocates=buffer("1", 40))
    result = reserved(planned(writer), limit_bytes=50 * MIB)
    assert (result.peak_bytes, result.n_retries) == (40 * MIB, 1)
    assert result.changes == ((0, 30 * MIB), (1, 10 * MIB))


def test_no_less_is_reserved_than_allocated() -> None:
    for words in (["schedule=ddp"], ["schedule=zero2"], ["checkpointing=full", "steps=2"]):
        plan = plan_of(load_scenario("gpt2-1.5b", words))
        assert reserved(plan).peak_bytes >= heaviest(plan).peak_bytes


def fsdp2(*words: str) -> Plan:
    """Six layers of P parameters in bfloat16, next to no activations, shards on 64 ranks."""
    sizes = ["hidden=8192", "layers=6", "micro_batch=1", "world_size=64"]
    given = ["schedule=fsdp2", "dtype=bfloat16", "reduce_dtype=float32", *sizes, *words]
    return plan_of(load_scenario("lesson-zero3", given))


LAYER = 8192 * 8192 + 8192


def in_layers(nbytes: int) -> float:
    return round(nbytes / LAYER, 1)


def test_an_fsdp2_forward_allocates_four_bytes_a_parameter_of_a_layer_and_reserves_six() -> None:
    plan = fsdp2()
    backward = next(op.id for op in plan.ops if op.kind is Kind.BACKWARD)
    (first, _), *changes = reserved(plan).changes
    assert first == -1
    before = [change for op, change in changes if op < backward]
    # Two all-gather outputs of two bytes take turns; the parameters take a third one.
    assert in_layers(sum(before)) == 6.1  # 6, and the segments' rounding
    held = sum(allocation.nbytes for allocation in plan.persistent)
    allocated = heaviest(replace(plan, ops=plan.ops[: plan.ops[backward].id])).peak_bytes
    assert in_layers(allocated - held) == 4.0


def test_an_fsdp2_backward_allocates_ten_bytes_a_parameter_of_a_layer() -> None:
    plan = fsdp2()
    peak = heaviest(plan)
    held = sum(allocation.nbytes for allocation in plan.persistent)
    # Parameters 2, gradients 2, the next all-gather's output 2, the last reduce-scatter's input 4;
    # beside them the shards of four layers that are reduced and cast to two bytes already.
    shards = 2 * 4 * LAYER / 64
    assert in_layers(int(peak.peak_bytes - held - shards)) == 10.0
    assert peak.op == "B1"
