"""Rows of plans and of engines: which ranks a collective spans, and where two lists part."""

from __future__ import annotations

from zerosim.kinds import Kind
from zerosim.plan import Axis, Plan, PlanWriter
from zerosim_runtime.equality.seen import (
    Seen,
    compared,
    members_of,
    n_collectives,
    planned,
    row_from,
    row_to,
)

AR = Seen(1, 0, "all_reduce", 12, "float32", (0, 1))
B1 = Seen(1, 0, "backward", unit="1")
B0 = Seen(1, 0, "backward", unit="0")


def test_a_plan_is_read_as_markers_and_collectives() -> None:
    writer = PlanWriter(step=2, micro_batch=1)
    writer.compute(Kind.BACKWARD, "1")
    writer.compute(Kind.FILL, "1", elements=12, dtype="float32")
    writer.collective(Kind.ALL_REDUCE, "1", elements=12, dtype="float32")
    writer.compute(Kind.OPTIMIZER, "")
    plan = Plan("two", 2, tuple(writer.ops), (Axis("world", 2),))
    assert planned(plan, 1) == [
        Seen(2, 1, "backward", unit="1"),
        Seen(2, 1, "all_reduce", 12, "float32", (0, 1)),
    ]


def test_a_group_of_neighbours_holds_the_ranks_of_ones_own_block() -> None:
    assert members_of(Axis("shard", 4), 6) == (4, 5, 6, 7)


def test_a_group_across_nodes_holds_every_stride_th_rank() -> None:
    assert members_of(Axis("replicate", 2, 4), 6) == (2, 6)


def test_equal_lists_have_no_mismatch() -> None:
    assert compared([B1, AR, B0], [B1, AR, B0]) is None


def test_a_collective_one_layer_late_is_a_mismatch_and_shown_side_by_side() -> None:
    mismatch = compared([B1, AR, B0], [B1, B0, AR])
    assert mismatch is not None
    assert mismatch.position == 1
    assert mismatch.text.splitlines() == [
        "    plan                                engine",
        "    1.0 B1                              1.0 B1",
        "  ! 1.0 AR 12 float32 of 2 ranks (0-1)  1.0 B0",
        "  ! 1.0 B0                              1.0 AR 12 float32 of 2 ranks (0-1)",
    ]


def test_a_missing_collective_is_a_mismatch() -> None:
    mismatch = compared([B1, B0, AR], [B1, B0])
    assert mismatch is not None
    assert mismatch.position == 2


def test_other_elements_dtype_or_ranks_are_a_mismatch() -> None:
    for other in (
        Seen(1, 0, "all_reduce", 13, "float32", (0, 1)),
        Seen(1, 0, "all_reduce", 12, "bfloat16", (0, 1)),
        Seen(1, 0, "all_reduce", 12, "float32", (0, 2)),
    ):
        assert compared([AR], [other]) is not None


def test_only_collectives_are_counted() -> None:
    assert n_collectives([B1, AR, B0]) == 1


def test_rows_survive_a_file() -> None:
    assert [row_from(row_to(row)) for row in (AR, B0)] == [AR, B0]
