"""The most that real ranks hold at once, as they book it, is what the simulation of the same scenario says."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl
import pytest

from tests.runtime.cases import bitwise_cases, close_cases, odd_cases, ordered_cases
from tests.runtime.conftest import Ranks
from zerosim.scenario import Scenario, run
from zerosim.trace import Trace
from zerosim_runtime.merge import merge

pytestmark = pytest.mark.runtime
Launch = Callable[[int], Ranks]
EVERY = [
    *((2, case.name) for case in (*bitwise_cases(2), *odd_cases(2))),
    *((3, case.name) for case in (*close_cases(3), *ordered_cases(3))),
]


def peaks(trace: Trace) -> list[int]:
    allocated = trace.samples.filter(pl.col("counter") == "memory.allocated")
    by_rank = allocated.group_by("rank").agg(pl.col("value").max()).sort("rank")
    return by_rank["value"].to_list()


@pytest.mark.parametrize(("n_ranks", "name"), EVERY)
def test_the_measured_peak_is_the_simulated_one_to_the_byte(
    ranks: Launch, n_ranks: int, name: str
) -> None:
    measured = merge(ranks(n_ranks).directory / name)
    assert measured.meta.scenario is not None
    simulated = run(Scenario.from_dict(measured.meta.scenario))
    assert peaks(measured) == peaks(simulated)


@pytest.mark.parametrize("n_ranks", [2, 3])
def test_every_stage_holds_less_than_the_one_before(ranks: Launch, n_ranks: int) -> None:
    names = [
        case.name
        for case in (bitwise_cases(2) if n_ranks == 2 else ordered_cases(3))
        if case.scenario["workload"]["model"] == "gpt"
        and case.scenario["schedule"]["name"] in ("ddp", "zero1", "zero2", "zero3")
        and len(case.scenario["schedule"]) == 1
    ]
    found = [peaks(merge(ranks(n_ranks).directory / name))[0] for name in names]
    assert len(found) == 4
    assert found == sorted(found, reverse=True)
    assert len(set(found)) == 4
