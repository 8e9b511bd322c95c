"""Where gradients lie that are all-reduced: places read off the fills, cut anew with new buckets."""

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
from zerosim.schedules.ddp import DdpOptions, ddp
from zerosim.workload import Workload
from zerosim_runtime.replicas import Reduction, reduction_at, reductions_of

SINGLE = Numerics("float32", "float32", "adamw")
TWO = uniform(layers=2, hidden=3, tokens=4)  # weights of 9, biases of 3 elements
CAP = DdpOptions(bucket_cap_mb=36 / 2**20)


def _plan(options: DdpOptions = CAP, workload: Workload = TWO, steps: int = 2) -> Plan:
    return ddp(workload, 2, SINGLE, options, steps)


def _places(reduction: Reduction) -> list[tuple[tuple[int, int], int, int]]:
    return [(place.key, place.start, place.end) for place in reduction.places]


def test_a_buffer_is_filled_as_gradients_arrive() -> None:
    first, _ = reductions_of(_plan(), TWO)
    # bias before weight, layer 1 before layer 0; all in one bucket
    assert _places(first) == [((1, 1), 0, 3), ((1, 0), 3, 12), ((0, 1), 12, 15), ((0, 0), 15, 24)]
    assert first.buckets == {0: (0, 24)}


def test_new_buckets_are_stretches_of_the_same_buffer() -> None:
    _, second = reductions_of(_plan(), TWO)
    assert second.buckets == {0: (0, 12), 1: (12, 24)}
    assert [place.key for place in second.of_bucket(1)] == [(0, 1), (0, 0)]


def test_parameters_may_arrive_at_buckets_by_turns() -> None:
    options = DdpOptions(bucket_cap_mb=36 / 2**20, find_unused_parameters=True)
    first, _ = reductions_of(_plan(options), TWO)
    # As defined: weight 0 | bias 0, weight 1 | bias 1; the last one goes first.
    assert first.buckets == {0: (0, 3), 1: (3, 15), 2: (15, 24)}
    assert _places(first) == [((1, 1), 0, 3), ((1, 0), 3, 12), ((0, 1), 12, 15), ((0, 0), 15, 24)]


def test_an_op_belongs_to_the_reduction_that_it_is_in_or_before() -> None:
    plan = _plan()
    first, second = reductions = reductions_of(plan, TWO)
    backwards = [op for op in plan.ops if op.kind is Kind.BACKWARD]
    assert [reduction_at(reductions, op) is first for op in backwards] == [True, True, False, False]
    told = [op for op in plan.ops if op.kind is Kind.BROADCAST]
    assert all(reduction_at(reductions, op) is second for op in told)


@pytest.mark.parametrize(
    ("elements", "message"),
    [
        (6, "bucket 0 takes 6 elements of unit 1, which cuts a parameter"),
        (60, "bucket 0 takes more parameters than its units have"),
        (3, "the plan fills fewer gradients than there are"),
    ],
)
def test_fills_that_do_not_fit_the_parameters_are_refused(elements: int, message: str) -> None:
    plan = _plan(steps=1)
    ops = [op for op in plan.ops if op.kind is not Kind.FILL or op.unit == "1"]
    ops = [replace(op, elements=elements) if op.kind is Kind.FILL else op for op in ops]
    numbered = tuple(replace(op, id=i, after=()) for i, op in enumerate(ops))
    with pytest.raises(RuntimeFailedError, match=message):
        reductions_of(replace(plan, ops=numbered), TWO)


@given(
    layers=st.integers(1, 4),
    hidden=st.integers(1, 9),
    cap=st.integers(0, 400),
    find_unused=st.booleans(),
)
def test_every_gradient_lies_in_exactly_one_place(
    layers: int, hidden: int, cap: int, find_unused: bool
) -> None:
    workload = uniform(layers=layers, hidden=hidden, tokens=1)
    options = DdpOptions(bucket_cap_mb=cap / 2**20, find_unused_parameters=find_unused)
    for reduction in reductions_of(_plan(options, workload), workload):
        places = reduction.places
        assert sorted(place.key for place in places) == [
            (unit, index) for unit in range(layers) for index in (0, 1)
        ]
        assert [0, *(place.end for place in places)] == [
            *(place.start for place in places),
            workload.n_params,
        ]
