"""Runs of several ranks: who waited for whom, as others computed it, to the nanosecond."""

from __future__ import annotations

import polars as pl
import pytest

from tests.zerosim.importers.told import TRUTH, held, of_set
from zerosim.analysis.summary import summarize

SETS = TRUTH.get("kineto", {}).get("cross_rank", {})
TIED = [run for run, told in SETS.items() if told["aligned"]]
LOOSE = ("hta", "tracelens", "kineto", "h100_single")
"""Files of many runs, whose collectives are not one another's."""
BESIDES = {
    "torchrec_opt1": (12, [3_035_783_000, 3_035_985_000, 0, 3_035_181_000], [0, 0, 12, 0]),
    "torchrec_opt2a": (
        27,
        [3_092_307_000, 3_103_350_000, 12_864_000, 3_097_489_000],
        [10, 0, 13, 4],
    ),
    "gloo_ddp": (9, [414_509_601, 0, 175_804_294, 403_418_883], [0, 9, 0, 0]),
    "gloo_fsdp2_rs": (36, [164_937_449, 96_186_972, 237_654_167, 327_972_437], [8, 13, 9, 6]),
    "gloo_zero1": (51, [79_414_906, 267_262_364, 348_216_300, 322_904_388], [16, 16, 10, 9]),
}
"""Runs that who computed the figures did not tie, for their kernels are not equally many on all ranks,
or are none. Ours come from the raw files by another way: of TorchRec the kernels that a call in the file
launched, in order of call; of Gloo the transfers in order of their record numbers."""


@pytest.mark.usefixtures("shared")
def test_every_set_is_held_by_a_test() -> None:
    assert {*TIED, *LOOSE, *BESIDES} == set(SETS)


@pytest.mark.parametrize("run", held(TIED))
def test_waits_and_arrivals_are_exact(run: str) -> None:
    told, found = SETS[run], summarize(of_set(run))["skew"]
    assert found["aligned"] is True
    assert found["n"] == told["n"]
    assert found["wait_ns_per_rank"] == told["wait_ns_per_rank"]
    assert found["arrived_last_count"] == told["arrived_last_count"]
    assert found["straggler"] == told["wait_ns_per_rank"].index(min(told["wait_ns_per_rank"]))


@pytest.mark.parametrize("run", held(TIED))
def test_starts_and_ends_are_as_far_apart_as_told(run: str) -> None:
    told, trace = SETS[run], of_set(run)
    spread = pl.col("start_ns", "end_ns").max() - pl.col("start_ns", "end_ns").min()
    members = trace.spans.drop_nulls("collective").group_by("collective")
    apart = members.agg(spread, n=pl.col("rank").n_unique()).filter(pl.col("n") == len(trace.ranks))
    starts, ends = apart["start_ns"].sort(), apart["end_ns"].sort()
    middle = told["n"] // 2
    assert {"median": starts[middle], "max": starts[-1], "sum": starts.sum()} == told[
        "start_skew_ns"
    ]
    assert {"median": ends[middle], "max": ends[-1]} == told["end_spread_ns"]


@pytest.mark.parametrize("run", held(run for run in SETS if run in BESIDES))
def test_runs_that_others_could_not_tie_are_tied(run: str) -> None:
    found = summarize(of_set(run))["skew"]
    assert (found["n"], found["wait_ns_per_rank"], found["arrived_last_count"]) == BESIDES[run]
    assert found["aligned"] is True


@pytest.mark.parametrize("run", held(run for run in SETS if run in LOOSE))
def test_files_of_many_runs_have_no_collective_in_common(run: str) -> None:
    found = summarize(of_set(run))["skew"]
    assert (found["aligned"], found["n"], found["wait_ns_per_rank"]) == (False, 0, None)
