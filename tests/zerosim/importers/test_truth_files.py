"""Every Kineto file gives the figures that others computed from it, to the nanosecond."""

from __future__ import annotations

from collections import Counter
from typing import Any

import polars as pl
import pytest

from tests.zerosim.importers.told import (
    GLOO,
    GPU,
    KINETO,
    clipped,
    entry,
    extent,
    figures,
    held,
    imported,
    kinds,
    path_of,
    summary,
    work,
)
from zerosim.importers.kineto.facts import dtype_of, kind_of
from zerosim.kinds import Kind
from zerosim.trace import Flag, flagged

OUTPUT_IS_FULL = (Kind.ALL_GATHER, Kind.GATHER)
IDLE = ("hta/rank_unavailable__rank_not_found", "hta/distributed_info_not_found")
"""Files that list GPUs, though none of them worked."""
MARKED = ("hta/sampled_rank-0", "hta/sampled_rank-1", "tracelens/resnet_act_checkpoint")
"""Files whose kernels bear one name for several collectives: who counted them went by the name."""
BY_NAME = {
    "AllGather": ["all_gather"],
    "ReduceScatter": ["reduce_scatter"],
    "AllReduce": ["all_reduce"],
    "Broadcast": ["broadcast"],
    "Reduce": ["reduce"],
    "SendRecv": ["all_to_all", "p2p", "collective"],
}
NO_LAUNCH = "hta/rank-70.Mar_25_20_48_12.2861"
"""A file of one kernel, without the call that launched it."""


@pytest.mark.usefixtures("shared")
def test_every_file_is_read_on_its_own_and_none_twice() -> None:
    paths = [path_of(key) for key in KINETO if not key.startswith("dlrm8/")]
    assert len(paths) == len(set(paths)) == 61


@pytest.mark.parametrize("key", held(KINETO))
def test_what_a_file_says_of_itself(key: str) -> None:
    told, run = KINETO[key], summary(key)
    # One file says its rank by its name alone; others not at all.
    assert entry(key)["rank"] == (70 if key == NO_LAUNCH else told["rank"] or 0)
    assert run["world_size"] == told["world_size"]
    assert imported(key).meta.device == (None if key in IDLE else told["gpu_name"])
    if not key.startswith("dlrm8/"):
        assert run["quality"]["events"] == told["events_total"]


@pytest.mark.parametrize("key", held(KINETO))
def test_steps_are_those_that_the_host_marked(key: str) -> None:
    base = KINETO[key]["base_time_ns"] or 0
    assert entry(key)["steps"] == [
        {"step": s["step"], "start_ns": base + s["ts_ns"], "step_ns": s["dur_ns"]}
        for s in KINETO[key]["steps"]
    ]


@pytest.mark.parametrize("key", held(GPU))
def test_whole_figures_are_exact(key: str) -> None:
    told = dict(KINETO[key]["whole"])
    named = told.pop("comm_kernel_kinds")
    first = told.pop("first_gpu_ts_ns") + (KINETO[key]["base_time_ns"] or 0)
    lasted, idle = told.pop("gpu_span_ns"), told.pop("gpu_idle_ns")
    found = figures(work(key))
    assert found == told
    assert extent(work(key)) == (first, lasted)
    assert lasted - found["gpu_busy_ns"] == idle
    assert entry(key)["whole"] == {
        "compute_ns": told["compute_busy_ns"],
        "comm_ns": told["comm_busy_ns"],
        "mem_ns": told["mem_busy_ns"],
        "exposed_ns": told["exposed_comm_ns"],
    }
    if key not in MARKED:
        counts = kinds(work(key))
        assert {n: sum(counts[kind] for kind in BY_NAME[n]) for n in named} == named


@pytest.mark.parametrize("key", held(GPU))
def test_figures_of_steps_are_exact_by_launch(key: str) -> None:
    told = {
        name: {n: value for n, value in sums.items() if n != "comm_kernel_kinds"}
        for name, sums in KINETO[key]["by_launch"].items()
    }
    rows, before = work(key), flagged(Flag.BEFORE_WINDOW)
    found = {
        "no_launch": figures(rows.filter(before)),
        "outside": figures(rows.filter(~before & pl.col("step").is_null())),
        **{
            str(n): figures(rows.filter(pl.col("step") == n))
            for n in rows["step"].drop_nulls().unique()
        },
    }
    if key == NO_LAUNCH:
        found["no_launch"], found["outside"] = found["outside"], found["no_launch"]
    assert {name: sums for name, sums in found.items() if any(sums.values())} == told
    for step in entry(key)["by_step"]:
        assert (step["compute_ns"], step["comm_ns"], step["exposed_ns"]) == by_launch(
            told, step["step"]
        )


def by_launch(told: dict[str, dict[str, int]], step: int) -> tuple[int | None, ...]:
    """Unknown in a file none of whose launches lies in a step; 0 of nothing in a step without any."""
    names = ("compute_busy_ns", "comm_busy_ns", "exposed_comm_ns")
    if not any(name.isdigit() for name in told):
        return (None, None, None)
    return tuple(told.get(str(step), {}).get(name, 0) for name in names)


@pytest.mark.parametrize("key", held(GPU))
def test_figures_of_steps_are_exact_by_time(key: str) -> None:
    for step in entry(key)["steps"]:
        told = dict(KINETO[key]["by_clip"][str(step["step"])])
        del told["comm_kernel_kinds"]
        begin = step["start_ns"]
        assert figures(clipped(work(key), begin, begin + step["step_ns"])) == told


def tallied(told: dict[str, Any]) -> dict[tuple[str, str | None, int], tuple[int, int, int]]:
    """Count, elements and bytes of the full tensors by kind, dtype and group size; waits move nothing."""
    found = {}
    for key, sums in told.items():
        name, dtype, size = key.split("|")
        side = "out" if kind_of(name) in OUTPUT_IS_FULL else "in"
        if name != "wait":
            found[kind_of(name).value, dtype_of(dtype), int(size)] = (
                *(sums["count"], sums[f"{side}_nelems"], sums[f"{side}_bytes"]),
            )
    return found


@pytest.mark.parametrize("key", held(key for key in KINETO if key not in GLOO))
def test_collectives_are_counted_with_their_bytes(key: str) -> None:
    told, called = KINETO[key]["collectives_kernel"], KINETO[key]["collectives_cpu"]
    found = {
        (c["kind"], c["dtype"], c["group_size"]): (c["count"], c["elements"], c["nbytes"])
        for c in entry(key)["collectives"]
    }
    assert found == tallied(told if key in GPU else called) == tallied(called)


@pytest.mark.usefixtures("shared")
def test_kernels_of_one_name_are_told_apart_by_what_was_called() -> None:
    assert [kinds(work(key)) for key in MARKED] == [
        *({"all_to_all": 4, "all_reduce": 4, "all_gather": 2},) * 2,
        # Five were launched before the recording: the name of AMD's kernel says nothing.
        {"all_reduce": 6, "broadcast": 6, "collective": 5},
    ]


@pytest.mark.parametrize("key", held(GLOO))
def test_figures_of_gloo_are_exact(key: str) -> None:
    told, rows = KINETO[key]["gloo"], work(key)
    assert entry(key)["whole"] == {
        "compute_ns": told["aten_main_thread_busy_ns"],
        "comm_ns": told["busy_ns"],
        "mem_ns": 0,
        "exposed_ns": told["gloo_not_covered_by_aten_ns"],
    }
    called = Counter[str]()
    for name, count in told["c10d_ops"].items():
        called[kind_of(name).value] += count
    moved = Counter[str]()
    for name, sums in told["by_op"].items():
        moved[kind_of(name).value] += sums["count"]
    assert kinds(rows) == (called or moved)
    sums = figures(rows)
    assert sums["n_comm_kernels"] == moved.total()
    assert sums["comm_sum_ns"] == sum(s["dur_sum_ns"] for s in told["by_op"].values())


@pytest.mark.parametrize("key", held(GLOO))
def test_gloo_gathers_shards_and_reduces_whole_tensors(key: str) -> None:
    """Who counted them took what a worker was given: of an all-gather the shard of one of four ranks."""
    given = Counter[str]()
    for name, sums in KINETO[key]["gloo"]["by_op"].items():
        given["all_gather" if "gather" in name else "others"] += sums["in_nelems"]
    elements = Counter[str]()
    for kind, n in (
        work(key).filter(pl.col("elements").is_not_null()).select("kind", "elements").rows()
    ):
        elements["all_gather" if kind == "all_gather" else "others"] += n
    assert elements["others"] == given["others"]
    assert elements["all_gather"] == 4 * given["all_gather"]
    assert summary(key)["quality"]["unsized"] == 0


@pytest.mark.parametrize("key", held(key for key, told in KINETO.items() if "memory" in told))
def test_memory_is_that_of_the_device_that_worked(key: str) -> None:
    told = KINETO[key]["memory"]
    device = next((told[name] for name in told if name != "device 0/-1"), told["device 0/-1"])
    counter = imported(key).samples.filter(pl.col("counter") == "memory.allocated")
    assert entry(key)["peak_bytes"] == device["peak_total_allocated"]
    assert counter.height == device["events"]
