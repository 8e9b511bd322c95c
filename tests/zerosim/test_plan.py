"""Plans: one that could not be carried out is refused with its reason."""

from __future__ import annotations

import pytest

from zerosim.errors import PlanError
from zerosim.kinds import Kind
from zerosim.plan import Allocation, Axis, Op, Plan, PlanWriter

WORLD = (Axis("world", 2),)


def op(i: int, **fields: object) -> Op:
    return Op(**{"id": i, "name": f"F{i}", "kind": Kind.FORWARD, "stream": "compute", **fields})  # type: ignore[arg-type]


def plan(*ops: Op, axes: tuple[Axis, ...] = WORLD) -> Plan:
    return Plan("p", 2, ops, axes)


def test_the_order_names_ops_and_leaves_fills_out() -> None:
    writer = PlanWriter()
    writer.compute(Kind.FORWARD, "0", flops=1)
    writer.compute(Kind.FILL, "0")
    writer.collective(Kind.ALL_REDUCE, "0", elements=4, dtype="float32")
    writer.compute(Kind.OPTIMIZER, "")
    assert Plan("p", 2, tuple(writer.ops), WORLD).order == "F0 AR0 OPT"


def test_an_op_that_waits_for_a_later_one_is_refused() -> None:
    with pytest.raises(PlanError, match=r"op 'F0' waits for \(1,\): it may wait for earlier ops"):
        plan(op(0, after=(1,)), op(1))


def test_an_op_that_waits_for_itself_is_refused() -> None:
    with pytest.raises(PlanError, match="it may wait for earlier ops only"):
        plan(op(0, after=(0,)))


def test_ops_out_of_order_are_refused() -> None:
    with pytest.raises(PlanError, match="op 'F3' has id 3 at position 0: number them in order"):
        plan(op(3))


def test_negative_work_is_refused() -> None:
    with pytest.raises(PlanError, match="op 'F0' has negative work"):
        plan(op(0, flops=-1))


def test_a_collective_of_no_group_is_refused() -> None:
    collective = op(
        0, kind=Kind.ALL_REDUCE, group="wrld", communicator="c", elements=1, dtype="int8"
    )
    with pytest.raises(PlanError, match=r"uses group 'wrld': known are \['world'\]"):
        plan(collective)


def test_a_collective_without_a_size_is_refused() -> None:
    with pytest.raises(
        PlanError, match="collective 'F0' needs a communicator, elements and a dtype"
    ):
        plan(op(0, kind=Kind.ALL_REDUCE, group="world", communicator="c"))


def test_a_group_that_does_not_divide_the_ranks_is_refused() -> None:
    with pytest.raises(PlanError, match="group 'a' of 3 ranks 1 apart does not divide 2 ranks"):
        plan(op(0), axes=(Axis("a", 3),))


def test_memory_taken_twice_is_refused() -> None:
    taken = (Allocation("k", "buckets", 1),)
    with pytest.raises(PlanError, match="op 'F1' allocates 'k' twice: free it first"):
        plan(op(0, allocates=taken), op(1, allocates=taken))


def test_memory_that_nothing_holds_cannot_be_freed() -> None:
    with pytest.raises(PlanError, match="op 'F0' frees 'k', which nothing holds"):
        plan(op(0, frees=("k",)))


def test_memory_of_an_unknown_kind_is_refused() -> None:
    with pytest.raises(PlanError, match="'F0' allocates 1 B of 'bucketz': give 0 B or more of"):
        plan(op(0, allocates=(Allocation("k", "bucketz", 1),)))
    with pytest.raises(PlanError, match="'p' allocates -1 B of 'buckets'"):
        Plan("p", 2, (op(0),), WORLD, (Allocation("k", "buckets", -1),))


def test_bytes_of_an_op_are_its_elements_in_its_dtype_or_unknown() -> None:
    assert op(0, elements=6, dtype="bfloat16").nbytes == 12
    assert op(0, elements=6).nbytes is None
    assert op(0, dtype="bfloat16").nbytes is None
