"""Equal things stay equal: ranks, folded ranks, and a scenario stored twice, byte for byte."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import orjson
import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.properties.scenarios import (
    EVERY_SCHEDULE,
    FEW,
    Record,
    carried_out,
    contended,
    ranks_of,
    records,
)
from zerosim.plan import at_rank
from zerosim.scenario import Scenario, run
from zerosim.store import save_run


@EVERY_SCHEDULE
@given(data=st.data())
@FEW
def test_equal_ranks_have_equal_traces(schedule: str, data: st.DataObject) -> None:
    record = data.draw(records(schedule, engine="unfolded", equal=True))
    _, plan, program, trace = carried_out(record)
    memory = trace.samples.select("rank", "time_ns", "counter", "value")
    seen: dict[tuple[int, ...], Any] = {}
    for rank, rows in ranks_of(plan, trace):
        # Ranks that own as much as each other are equal; a schedule may give some ranks more.
        owns = tuple(at_rank(by_rank, rank) for by_rank in program.uneven)
        times = [row[1:] for row in rows]
        held = memory.filter(pl.col("rank") == rank).drop("rank").rows()
        assert seen.setdefault(owns, (times, held)) == (times, held)


@EVERY_SCHEDULE
@given(data=st.data())
@FEW
def test_folded_and_unfolded_ranks_have_equal_traces(schedule: str, data: st.DataObject) -> None:
    record = data.draw(records(schedule, engine="simpy"))
    folded = run(Scenario.from_dict(record))
    record["run"]["engine"] = "unfolded"
    every = run(Scenario.from_dict(record))
    assert folded.spans.equals(every.spans)
    assert folded.samples.equals(every.samples)
    assert folded.meta.steps == every.meta.steps
    assert folded.meta.states == every.meta.states


@EVERY_SCHEDULE
@given(data=st.data())
@FEW
def test_every_engine_gives_the_same_trace_where_kernels_are_slower_beside_collectives(
    schedule: str, data: st.DataObject
) -> None:
    record = data.draw(contended(schedule))
    traces = []
    for engine in ("auto", "stretched", "simpy", "unfolded"):
        if engine == "stretched" and record["cluster"]["link_sharing"]:
            continue  # which is SimPy's
        record["run"]["engine"] = engine
        traces.append(run(Scenario.from_dict(record)))
    first, *others = traces
    for other in others:
        assert first.spans.equals(other.spans)
        assert first.samples.equals(other.samples)


FILES = ("run.json", "spans.parquet", "samples.parquet")


def stored(record: Record, directory: Path) -> dict[str, str]:
    save_run(run(Scenario.from_dict(record)), directory)
    return {name: hashlib.sha256((directory / name).read_bytes()).hexdigest() for name in FILES}


@EVERY_SCHEDULE
@given(data=st.data())
@settings(max_examples=10)
def test_the_same_scenario_and_seed_store_the_same_bytes(
    schedule: str, data: st.DataObject
) -> None:
    record = data.draw(records(schedule))
    with tempfile.TemporaryDirectory() as place:
        assert stored(record, Path(place) / "a") == stored(record, Path(place) / "b")


def test_another_process_stores_the_same_bytes(tmp_path: Path) -> None:
    record: Record = {
        "name": "random",
        "workload": {"model": "gpt", "hidden": 8, "heads": 2, "vocab": 9, "seq": 3},
        "schedule": {"name": "zero3", "communicators": 2, "prefetch": 1},
        "cluster": {"name": "dgx-h100", "world_size": 5},
        "run": {"steps": 2, "jitter": 0.3, "seed": 4, "stragglers": "1:1.5"},
    }
    here = stored(record, tmp_path / "here")
    (tmp_path / "scenario.json").write_bytes(orjson.dumps(record))
    command = ["simulate", str(tmp_path / "scenario.json"), "-o", str(tmp_path / "there")]
    subprocess.run([sys.executable, "-m", "zerosim", *command], check=True, capture_output=True)
    there = {
        name: hashlib.sha256((tmp_path / "there" / name).read_bytes()).hexdigest() for name in FILES
    }
    assert there == here


def test_another_seed_gives_other_times() -> None:
    record: Record = {"name": "random", "run": {"jitter": 0.3, "seed": 1}}
    first = run(Scenario.from_dict(record)).spans["end_ns"].to_list()
    record["run"]["seed"] = 2
    assert run(Scenario.from_dict(record)).spans["end_ns"].to_list() != first
