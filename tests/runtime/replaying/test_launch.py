"""A run replayed by real ranks: what it sent is sent again, in its groups, order and sizes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from zerosim.errors import InputError, ScenarioError
from zerosim.replay import replay_of
from zerosim.scenario import Scenario
from zerosim.trace import Clock, Group, Meta, Trace, make_trace
from zerosim_runtime.replaying.launch import replay_really

PAIRS = (Group("even", 2, (0, 2)), Group("odd", 2, (1, 3)), Group("world", 4, (0, 1, 2, 3)))
MS = 1_000_000


def _rows(rank: int) -> list[dict[str, Any]]:
    base = {"rank": rank, "step": 1, "stream": "compute", "micro_batch": 0}
    sent = {"stream": "comm", "dtype": "float32"}
    pair = sent | {"group": ("even", "odd")[rank % 2]}
    times = ("issued_ns", "start_ns", "end_ns")
    ops: list[tuple[str, str, tuple[int, ...], dict[str, Any]]] = [
        (
            "all_gather",
            "AG0",
            (0, 0, 5),
            pair | {"elements": 10, "collective": rank % 2, "unit": "0"},
        ),
        ("forward", "F0", (5, 5, 45), {"unit": "0"}),
        ("reduce_scatter", "RS0", (46, 46, 50), pair | {"elements": 7, "collective": 2 + rank % 2}),
        (
            "all_reduce",
            "AR0",
            (51, 51, 55),
            sent | {"group": "world", "elements": 3, "collective": 4},
        ),
        ("reduce", "RED0", (56, 56, 57), sent | {"group": "world", "elements": 3, "collective": 5}),
        (
            "all_to_all",
            "A2A",
            (58, 58, 59),
            sent | {"group": "world", "elements": 8, "collective": 6},
        ),
        (
            "broadcast",
            "BC0",
            (60, 60, 61),
            sent | {"group": "world", "elements": 3, "collective": 7},
        ),
    ]
    return [
        base
        | {"kind": kind, "name": name}
        | dict(zip(times, (ms * MS for ms in at), strict=True))
        | more
        | ({"nbytes": 4 * more["elements"]} if "elements" in more else {})
        for kind, name, at, more in ops
    ]


def _run() -> Trace:
    rows = pl.DataFrame([row for rank in range(4) for row in _rows(rank)], infer_schema_length=None)
    meta = Meta("mine", "imported", 4, groups=PAIRS, clock=Clock(aligned=True, error_ns=0))
    return make_trace(rows, meta)


@pytest.mark.runtime
def test_real_ranks_send_what_a_run_sent_in_its_groups_and_sleep_where_it_computed(
    tmp_path: Path,
) -> None:
    trace = _run()
    scenario = Scenario("mine").with_set(["world_size=4"])

    again = replay_really(trace, replay_of(trace), scenario, out=tmp_path / "run")

    mine = again.spans.filter(pl.col("rank") == 3, pl.col("kind").cast(pl.String) != "host")
    assert " ".join(mine["name"].cast(pl.String)) == "AG0 F0 RS0 AR0 RED0 A2A BC0"
    assert mine["elements"].to_list() == [10, None, 7, 3, 3, 8, 3]
    computed = mine.filter(pl.col("name").cast(pl.String) == "F0").row(0, named=True)
    assert computed["end_ns"] - computed["start_ns"] >= 40 * MS
    gathers = again.spans.filter(pl.col("name").cast(pl.String) == "AG0").sort("rank")
    assert gathers["end_ns"].null_count() == 0
    assert again.meta.finished
    assert again.meta.scenario is None
    assert again.meta.model is None


def test_a_run_of_more_ranks_than_can_be_started_is_refused() -> None:
    rows = pl.DataFrame([_rows(0)[1]], infer_schema_length=None)
    trace = make_trace(rows, Meta("mine", "imported", 128))

    with pytest.raises(ScenarioError, match="the run has 128 ranks, and 64 can be started here"):
        replay_really(trace, replay_of(trace), Scenario("mine"))


@pytest.mark.parametrize(
    ("backend", "message"),
    [
        ("mpi", "no backend 'mpi': known: auto, gloo, nccl"),
        ("paced:1Gbit", "backend is 'paced:1Gbit', and a replay's links are not paced: give auto"),
    ],
)
def test_a_backend_that_cannot_replay_is_refused_before_any_rank_starts(
    backend: str, message: str
) -> None:
    trace = _run()
    with pytest.raises(InputError, match=message):
        replay_really(trace, replay_of(trace), Scenario("mine"), backend=backend)
