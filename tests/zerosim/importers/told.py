"""What others computed from the shared traces: which file each figure is of, and ours beside it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from zerosim.analysis.busy import COMMUNICATING, COMPUTING, MOVING, activity
from zerosim.analysis.summary import summarize
from zerosim.importers import read
from zerosim.trace import Flag, Trace, flagged

SHARED = Path(__file__).parents[4] / "shared" / "traces"
TRUTH: dict[str, Any] = (
    json.loads((SHARED / "truth_give.json").read_text()) if SHARED.is_dir() else {}
)
"""Empty where the shared traces are not at hand."""
KINETO: dict[str, Any] = TRUTH.get("kineto", {}).get("traces", {})
FOLDERS = {
    "mn1211": "KellerJordan+modded-nanogpt",
    "torchrec_opt1": "pytorch+torchrec",
    "torchrec_opt2a": "pytorch+torchrec",
    "torchrec_log": "pytorch+torchrec",
    "hta": "facebookresearch+HolisticTraceAnalysis",
    "tracelens": "AMD-AGI+TraceLens",
    "kineto": "pytorch+kineto",
    "h100_single": "Quentin-Anthony+torch-profiling-tutorial",
    "gloo_ddp": "own-gloo-ddp",
    "gloo_fsdp2_rs": "own-gloo-fsdp2_rs",
    "gloo_zero1": "own-gloo-zero1",
}
DLRM = "facebookresearch+param/et_replay__tests__inputs__dlrm_kineto.tar.gz"
TWINS = {
    "hta/rank_unavailable__rank_not_found": "9246864b",
    "hta/cpu_only__rank-34.Jul_15_10_52_41.1074": "05cd72fe",
    "hta/cuda_event_sync__event_sync_trace": "a4a6c2d1",
    "hta/triton_example__triton_example": "36347a15",
    "hta/triton_example__triton_example__0935c73d": "0935c73d",
    "tracelens/gaunernst_bert-small-uncased__1016001": "tests__traces__h100",
    "tracelens/trace": "tests__traces__torch_compile",
    "kineto/test__gpu_metrics_input": "881d9250",
    "kineto/test__gpu_metrics_input__71530b1d": "71530b1d",
    "kineto/resnet50_num_workers_4__worker0": "7bd25bd0",
}
"""How the name begins of a file that shares its end with another."""
GPU = [key for key, told in KINETO.items() if told["streams"]]
GLOO = [key for key, told in KINETO.items() if "gloo" in told]


def held(keys: Iterable[str]) -> list[Any]:
    """`keys` to parametrize a test by: it is skipped where the shared traces are not at hand."""
    absent = pytest.param("", marks=pytest.mark.skip(reason="needs the shared traces"))
    return list(keys) or [absent]


def path_of(key: str) -> Path:
    """The file whose figures stand under `key`."""
    run, _, name = key.partition("/")
    begin = TWINS.get(key, "")
    if len(begin) == 8:  # of a commit, which the name bears only in front
        name = name.removesuffix(f"__{begin}")
    found = [
        path
        for path in (SHARED / FOLDERS[run]).iterdir()
        if path.name.startswith(begin)
        and path.name.split(".json")[0].removesuffix(".pt.trace").endswith(name)
    ]
    return min(found, key=lambda path: len(path.name))


@cache
def imported(key: str) -> Trace:
    """The trace of the file under `key`; of DLRM, whose ranks are one archive, all of them."""
    if key.startswith("dlrm8/"):
        return of_set("dlrm8")
    return read([path_of(key)])


@cache
def of_set(run: str) -> Trace:
    """All ranks of a run as one trace."""
    if run == "dlrm8":
        return read([SHARED / DLRM])
    return read(sorted(path_of(key) for key in KINETO if key.startswith(f"{run}/")))


@cache
def summary(key: str) -> dict[str, Any]:
    """The figures of the run that `imported` gives."""
    return summarize(of_set("dlrm8") if key.startswith("dlrm8/") else imported(key))


def entry(key: str) -> dict[str, Any]:
    """Our figures of the one rank under `key`."""
    ranks: list[dict[str, Any]] = summary(key)["ranks"]
    return ranks[int(KINETO[key]["rank"]) if key.startswith("dlrm8/") else 0]


def work(key: str) -> pl.DataFrame:
    """The rows of that rank that ended."""
    spans = imported(key).spans.filter(~flagged(Flag.UNFINISHED))
    return spans.filter(pl.col("rank") == entry(key)["rank"])


def figures(spans: pl.DataFrame) -> dict[str, int]:
    """Counts, sums and unions of `spans`, by the names that the truth gives them."""
    codes = activity(spans["kind"])
    comm, compute, mem = (codes == code for code in (COMMUNICATING, COMPUTING, MOVING))
    busy = _busy(spans)
    lasts = (spans["end_ns"] - spans["start_ns"]).to_numpy()
    every = busy(comm | compute | mem)
    return {
        "n_comm_kernels": int(comm.sum()),
        "n_compute_kernels": int(compute.sum()),
        "n_mem_ops": int(mem.sum()),
        "comm_busy_ns": busy(comm),
        "comm_sum_ns": int(lasts[comm].sum()),
        "compute_busy_ns": busy(compute),
        "compute_sum_ns": int(lasts[compute].sum()),
        "mem_busy_ns": busy(mem),
        "gpu_busy_ns": every,
        "exposed_comm_ns": busy(comm | compute) - busy(compute),
        "exposed_comm_incl_mem_ns": every - busy(compute | mem),
        "comm_compute_overlap_ns": busy(comm) + busy(compute) - busy(comm | compute),
    }


def extent(spans: pl.DataFrame) -> tuple[int, int]:
    """When the first of `spans` began, and how long it is until the last one ended."""
    begin, end = spans["start_ns"].to_numpy().min(), spans["end_ns"].to_numpy().max()
    return int(begin), int(end - begin)


def clipped(spans: pl.DataFrame, begin: int, end: int) -> pl.DataFrame:
    """What of `spans` lies between two moments."""
    inside = spans.filter((pl.col("end_ns") > begin) & (pl.col("start_ns") < end))
    return inside.with_columns(pl.col("start_ns", "end_ns").clip(begin, end))


def kinds(spans: pl.DataFrame) -> Counter[str]:
    """How many rows of each kind of communication there are."""
    return Counter(spans.filter(activity(spans["kind"]) == COMMUNICATING)["kind"].to_list())


def _busy(spans: pl.DataFrame) -> Callable[[Any], int]:
    begins, ends = spans["start_ns"].to_numpy(), spans["end_ns"].to_numpy()

    def union(rows: Any) -> int:
        order = np.argsort(begins[rows])
        begin, end = begins[rows][order], np.maximum.accumulate(ends[rows][order])
        covered = np.concatenate([begin[:1], end[:-1]])
        return int(np.maximum(0, end - np.maximum(begin, covered)).sum())

    return union
