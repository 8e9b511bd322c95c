"""The memory map read off a plan: rows, shards and buckets, padding included."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zerosim.errors import RuntimeFailedError
from zerosim.kinds import Kind
from zerosim.models import uniform
from zerosim.numerics import Numerics
from zerosim.plan import Plan
from zerosim.schedules import SCHEDULES
from zerosim.workload import Workload
from zerosim_runtime.layout import Layout, layout_of

SINGLE = Numerics("float32", "float32", "adamw")
TWO = uniform(layers=2, hidden=3, tokens=4)  # units of 9 + 3 elements


def _plan(name: str, workload: Workload, n_ranks: int, cap: int | None = None) -> Plan:
    schedule = SCHEDULES[name]
    plan: Plan = schedule.write(workload, n_ranks, SINGLE, schedule.options(bucket_bytes=cap))
    return plan


def _layout(name: str, n_ranks: int, cap: int | None = None) -> Layout:
    return layout_of(_plan(name, TWO, n_ranks, cap), TWO)


def test_a_parameter_that_does_not_divide_is_padded_to_equal_rows() -> None:
    layout = _layout("zero3", 2)
    weight, bias = layout.pieces[0]
    assert (weight.name, weight.numel, weight.row, weight.offset) == ("weight", 9, 5, 0)
    assert (bias.name, bias.numel, bias.row, bias.offset) == ("bias", 3, 2, 5)
    assert layout.shard_elements(0) == 7


def test_zero3_shards_parameters_and_ddp_keeps_everything_whole() -> None:
    zero3, zero1, ddp = _layout("zero3", 2), _layout("zero1", 2), _layout("ddp", 2)
    assert (zero3.shards, zero3.sharded, zero3.in_place) == (2, True, False)
    assert (zero1.shards, zero1.sharded, zero1.in_place) == (2, False, False)
    assert (ddp.shards, ddp.sharded, ddp.in_place) == (1, False, True)


def test_on_one_rank_zero3_still_gathers_and_reduces() -> None:
    layout = _layout("zero3", 1)
    assert (layout.shards, layout.sharded, layout.in_place) == (1, True, False)


def test_buckets_hold_gradients_from_the_last_layer_and_parameter_on() -> None:
    lanes = _layout("zero2", 2).gradients
    # bias before weight, unit 1 before unit 0
    places = [[(s.piece.unit, s.piece.name, s.offset) for s in lane.slots] for lane in lanes]
    assert places == [[(1, "bias", 0), (1, "weight", 2)], [(0, "bias", 0), (0, "weight", 2)]]
    assert [lane.row for lane in lanes] == [7, 7]
    assert [(lane.buffer, lane.reduced) for lane in lanes] == [
        ("bucket.0", "reduced.0"),
        ("bucket.1", "reduced.1"),
    ]


def test_a_bucket_may_take_one_unit_and_a_part_of_the_next() -> None:
    lanes = _layout("zero1", 2, cap=60).gradients
    # 4 + 10 elements take 56 bytes; with the 4 of the next bias it is 72, over 60
    assert [[(s.piece.unit, s.piece.name, s.offset) for s in lane.slots] for lane in lanes] == [
        [(1, "bias", 0), (1, "weight", 2), (0, "bias", 7)],
        [(0, "weight", 0)],
    ]
    assert [(lane.row, lane.bucket.label) for lane in lanes] == [(9, "1-0"), (5, "0")]


def test_gathers_after_the_update_go_forward() -> None:
    layout = _layout("zero1", 2)
    assert [[s.piece.unit for s in lane.slots] for lane in layout.gathers] == [[0, 0], [1, 1]]
    assert _layout("zero3", 2).gathers == ()
    assert _layout("ddp", 2).gathers == ()


def test_the_slots_of_a_unit_are_found_in_its_bucket() -> None:
    (lane,) = _layout("zero2", 1, cap=10_000).gradients
    assert [slot.offset for slot in lane.of_unit(1)] == [0, 3]
    assert [slot.offset for slot in lane.of_unit(0)] == [12, 15]


def test_a_plan_that_gathers_more_than_there_is_is_refused() -> None:
    plan = _plan("zero1", TWO, 2)
    ops = [replace(op, elements=1000) if op.kind is Kind.ALL_GATHER else op for op in plan.ops]
    with pytest.raises(RuntimeFailedError, match="'AG0' gathers more than there is"):
        layout_of(replace(plan, ops=tuple(ops)), TWO)


def test_a_bucket_that_would_cut_a_parameter_is_refused() -> None:
    plan = _plan("zero2", TWO, 2)
    ops = [replace(op, elements=6) if op.kind is Kind.FILL else op for op in plan.ops]
    with pytest.raises(RuntimeFailedError, match="which cuts a parameter"):
        layout_of(replace(plan, ops=tuple(ops)), TWO)


def test_a_bucket_of_more_parameters_than_there_are_is_refused() -> None:
    plan = _plan("zero2", TWO, 2)
    ops = [replace(op, elements=60) if op.kind is Kind.FILL else op for op in plan.ops]
    with pytest.raises(RuntimeFailedError, match="takes more parameters than its units have"):
        layout_of(replace(plan, ops=tuple(ops)), TWO)


@given(
    name=st.sampled_from(["zero1", "zero2", "zero3"]),
    layers=st.integers(1, 4),
    hidden=st.integers(1, 9),
    n_ranks=st.integers(1, 8),
    cap=st.none() | st.integers(1, 400),
)
def test_every_parameter_lies_in_exactly_one_gradient_bucket(
    name: str, layers: int, hidden: int, n_ranks: int, cap: int | None
) -> None:
    workload = uniform(layers=layers, hidden=hidden, tokens=1)
    layout = layout_of(_plan(name, workload, n_ranks, cap), workload)
    assert layout.gradients
    for lanes in filter(None, (layout.gradients, layout.gathers)):
        placed = [(s.piece.unit, s.piece.index) for lane in lanes for s in lane.slots]
        assert sorted(placed) == [(u, i) for u in range(layers) for i in (0, 1)]
        for lane in lanes:
            assert lane.row * layout.shards == lane.bucket.elements
            ends = [slot.offset + slot.piece.row for slot in lane.slots]
            assert [0, *ends[:-1]] == [slot.offset for slot in lane.slots]
