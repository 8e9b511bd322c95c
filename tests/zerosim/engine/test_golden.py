"""One step of each schedule on the unit cluster, second by second, as files a person can check by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl
import pytest

from zerosim.scenario import Scenario, run
from zerosim.schedules import SCHEDULES
from zerosim.trace import Trace

SECOND = 10**9
Unit = Callable[..., dict[str, Any]]


def times(trace: Trace) -> dict[str, str]:
    """`AG0: 0-12` in seconds, of rank 0; a second gather of a layer is called `AG0'`.

    Textbook buckets fill in no time, and are left out.
    """
    rows: dict[str, str] = {}
    timed = (pl.col("kind") != "fill") | (pl.col("end_ns") > pl.col("start_ns"))
    mine = trace.spans.filter((pl.col("rank") == 0) & timed)
    for name, start, end in mine.select("name", "start_ns", "end_ns").rows():
        key = f"{name}'" if name in rows else name
        rows[key] = f"{start // SECOND}-{end // SECOND}"
    return rows


def memory(trace: Trace) -> list[str]:
    """`24 s: 100 B` for the bytes in use on rank 0 from that second on."""
    mine = trace.samples.filter(
        (pl.col("rank") == 0) & (pl.col("counter").cast(pl.String) == "memory.in_use")
    )
    last = mine.group_by("time_ns", maintain_order=True).last()
    return [f"{t // SECOND} s: {value} B" for t, value in last.select("time_ns", "value").rows()]


@pytest.mark.parametrize("schedule", list(SCHEDULES))
def test_a_step_on_the_unit_cluster_is_the_golden_one(
    schedule: str, unit: Unit, golden: Callable[[str, Any], None]
) -> None:
    options = {"bucket_bytes": 24} if schedule == "ddp" else {}
    trace = run(Scenario.from_dict(unit(schedule, **options)))
    golden(f"unit-{schedule}", {"times": times(trace), "in_use": memory(trace)})


def test_zero3_serialises_gathers_and_reductions_on_one_communicator(unit: Unit) -> None:
    assert times(run(Scenario.from_dict(unit("zero3")))) == {
        "AG0": "0-12",
        "F0": "12-20",
        "AG1": "12-24",
        "F1": "24-32",
        "AG2": "24-36",  # two units may be gathered, so it waits for F0's end at 20
        "F2": "36-44",
        "B2": "44-60",
        "RS2": "60-72",
        "AG1'": "72-84",  # behind RS2 on the communicator
        "B1": "84-100",
        "RS1": "100-112",
        "AG0'": "112-124",
        "B0": "124-140",
        "RS0": "140-152",
        "OPT": "152-224",  # 9 elements of 8 bytes
    }


def test_two_communicators_share_the_link_and_take_40_seconds_less(unit: Unit) -> None:
    trace = run(Scenario.from_dict(unit("zero3", communicators=2)))
    assert trace.meta.engine == "simpy"
    backward = times(trace)
    assert backward["AG1'"] == "36-48"  # need not wait for RS2
    assert backward["RS2"] == "60-84"  # at half speed beside AG0'
    assert backward["AG0'"] == "60-84"
    assert backward["B0"] == "84-100"
    assert backward["OPT"] == "112-184"


def test_prefetching_hides_the_gathers_of_the_backward(unit: Unit) -> None:
    backward = times(run(Scenario.from_dict(unit("zero3", prefetch=1))))
    assert backward["AG1'"] == "36-48"
    assert backward["B2"] == "44-60"
    assert backward["B1"] == "60-76"
    assert backward["OPT"] == "112-184"


def test_not_keeping_the_last_layer_exposes_the_rest_of_its_gather(unit: Unit) -> None:
    backward = times(run(Scenario.from_dict(unit("zero3", keep_last=False))))
    assert backward["F2"] == "36-44"
    assert backward["AG2'"] == "36-48"  # overlaps F2, and B2 waits 4 s more
    assert backward["B2"] == "48-64"
    assert backward["OPT"] == "156-228"


def test_ddp_overlaps_reductions_with_the_backward(unit: Unit) -> None:
    assert times(run(Scenario.from_dict(unit("ddp", bucket_bytes=24)))) == {
        "F0": "0-8",
        "F1": "8-16",
        "F2": "16-24",
        "B2": "24-40",
        "fill2": "40-88",  # 6 gradients of 4 bytes are read and written first
        "AR2": "88-112",
        "B1": "88-104",
        "fill1": "104-152",
        "AR1": "152-176",
        "B0": "152-168",
        "fill0": "168-216",
        "AR0": "216-240",
        "copy2": "216-264",  # the average is read and written, too
        "copy1": "264-312",
        "copy0": "312-360",
        "OPT": "360-504",  # all 18 elements of 8 bytes
    }


def test_views_of_buckets_save_ddp_the_copies_back(unit: Unit) -> None:
    record = unit("ddp", bucket_bytes=24, gradient_as_bucket_view=True)
    assert times(run(Scenario.from_dict(record)))["OPT"] == "240-384"


def test_a_straggler_makes_the_others_wait_and_not_compute_longer(unit: Unit) -> None:
    record = unit("ddp", bucket_bytes=24) | {"run": {"stragglers": "1:2"}}
    spans = run(Scenario.from_dict(record)).spans
    by_rank = {
        rank: spans.filter((pl.col("rank") == rank) & (pl.col("name").cast(pl.String) == "AR2"))
        for rank in (0, 1)
    }
    # Rank 0 is there after 88 s, rank 1 after 176 s; the transfer takes 24 s from then on.
    assert by_rank[0]["start_ns"].item() == 88 * SECOND
    assert by_rank[1]["start_ns"].item() == 176 * SECOND
    assert by_rank[0]["end_ns"].item() == by_rank[1]["end_ns"].item() == 200 * SECOND


def test_the_host_issues_ahead_at_its_own_cost(unit: Unit) -> None:
    record = unit("zero3")
    record["cluster"] |= {"issue_s": 1, "collective_issue_s": 3}
    spans = run(Scenario.from_dict(record)).spans.filter(pl.col("rank") == 0)
    rows = spans.select(pl.col("name").cast(pl.String), "issued_ns", "start_ns").rows()
    # AG0 is on its way 3 s after the host began; F0 is issued then, and takes the host 1 s.
    assert rows[:3] == [
        ("AG0", 0, 3 * SECOND),
        ("F0", 3 * SECOND, 15 * SECOND),
        ("AG1", 4 * SECOND, 15 * SECOND),
    ]


def test_two_classes_of_ranks_share_a_node_and_a_step(unit: Unit) -> None:
    record = unit("zero3") | {"run": {"stragglers": "1:2"}}
    meta = run(Scenario.from_dict(record)).meta
    assert [c.members for c in meta.classes] == [((0, 0),), ((1, 1),)]
    assert len({window.end_ns for window in meta.steps}) == 2  # OPT is rank 1's own
