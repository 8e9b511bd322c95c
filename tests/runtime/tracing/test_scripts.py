"""Programs in the style of torch's own examples, traced without a change: nothing is missed, nothing moves."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections import Counter
from contextlib import ExitStack, suppress
from functools import cache
from pathlib import Path

import polars as pl
import pytest

import zerosim_runtime.tracing
from zerosim.kinds import COMMUNICATION
from zerosim.store import load_run
from zerosim.trace import Flag, Trace, flagged, of_kind
from zerosim_runtime.tracing.collect import collect

HERE = Path(__file__).parent
SCRIPTS = ("ddp", "zero_redundancy", "fsdp1", "fsdp2", "own", "zero_library")
BOOT = Path(zerosim_runtime.tracing.__file__).with_name("boot")

pytestmark = pytest.mark.runtime


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What two ranks left that have run all scripts, plain and traced."""
    directory = tmp_path_factory.mktemp("scripts")
    scripts = [str(HERE / "scripts" / f"{name}.py") for name in (*SCRIPTS, "block")]
    own = {"PYTHONPATH": os.pathsep.join([str(BOOT), *sys.path]), "OMP_NUM_THREADS": "1"}
    if Path("/sys/class/net/lo").exists():
        own["GLOO_SOCKET_IFNAME"] = "lo"
    # Python looks for a directory once, at its start.
    own["ZEROSIM_TRACE_DIR"] = str(directory)
    words = [sys.executable, str(HERE / "many.py")]
    port = str(free_ports(2 * len(scripts)))
    ranks = [
        subprocess.Popen([*words, rank, port, directory, *scripts], env=os.environ | own)
        for rank in ("0", "1")
    ]
    try:
        assert [rank.wait(timeout=300) for rank in ranks] == [0, 0]
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()
    return directory


def free_ports(n_ports: int) -> int:
    """The first of so many ports in a row that nobody uses now."""
    for first in range(21_000, 30_000, n_ports):
        with ExitStack() as stack, suppress(OSError):
            for port in range(first, first + n_ports):
                stack.enter_context(socket.socket()).bind(("127.0.0.1", port))
            return first
    raise AssertionError("no ports are free")


@cache
def traced(made: Path, name: str) -> Trace:
    return collect(made / name / "traced")


def losses(made: Path, name: str, how: str) -> list[str]:
    outputs = [(made / name / f"{how}-{rank}.out").read_text() for rank in (0, 1)]
    return [line for text in outputs for line in text.splitlines() if "loss" in line]


def of_step(trace: Trace, step: int) -> Counter[str]:
    rows = trace.spans.filter(
        (pl.col("rank") == 0) & (pl.col("step") == step) & of_kind(COMMUNICATION)
    )
    return Counter(rows["kind"].cast(pl.String).to_list())


@pytest.mark.parametrize("name", SCRIPTS)
def test_losses_are_the_same_with_and_without_tracing(made: Path, name: str) -> None:
    plain = losses(made, name, "plain")
    assert len(plain) == 6
    assert losses(made, name, "traced") == plain


@pytest.mark.parametrize("name", SCRIPTS)
def test_every_collective_has_kind_size_unit_and_times(made: Path, name: str) -> None:
    trace = traced(made, name)
    moved = trace.spans.filter(of_kind(COMMUNICATION))
    known = moved.filter(
        pl.col("nbytes").is_not_null()
        & pl.col("elements").is_not_null()
        & pl.col("unit").is_not_null()
        & pl.col("collective").is_not_null()
        & ~flagged(Flag.UNTIMED | Flag.UNFINISHED)
    )
    assert known.height >= 0.99 * moved.height > 0
    assert trace.meta.finished
    assert trace.meta.quality.unsized == 0
    assert not [w for w in trace.meta.quality.warnings if "disagree" in w or "before" in w]


@pytest.mark.parametrize("name", SCRIPTS)
def test_ops_are_issued_then_start_then_end(made: Path, name: str) -> None:
    spans = traced(made, name).spans
    wrong = (pl.col("issued_ns") > pl.col("start_ns")) | (pl.col("start_ns") > pl.col("end_ns"))
    assert spans.filter(wrong).is_empty()


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("ddp", {"all_reduce": 1}),
        ("zero_redundancy", {"all_reduce": 1, "broadcast": 18}),
        ("fsdp1", {"all_gather": 9, "reduce_scatter": 5}),
        ("fsdp2", {"all_gather": 9, "reduce_scatter": 5}),
        ("own", {"all_reduce": 18}),
        ("zero_library", {"reduce_scatter": 1, "all_gather": 1, "all_reduce": 1}),
    ],
)
def test_a_steady_step_issues_what_the_engine_is_known_for(
    made: Path, name: str, kinds: dict[str, int]
) -> None:
    assert of_step(traced(made, name), 3) == kinds


@pytest.mark.parametrize(
    ("name", "engine"),
    [
        ("ddp", "ddp on gloo"),
        ("zero_redundancy", "zero-redundancy on gloo"),
        ("fsdp1", "fsdp1 on gloo"),
        ("fsdp2", "fsdp2 on gloo"),
        ("own", "own on gloo"),
        ("zero_library", "zerosim on gloo"),
    ],
)
def test_the_engine_is_told_from_what_lives(made: Path, name: str, engine: str) -> None:
    assert traced(made, name).meta.engine == engine


def test_a_rank_takes_less_than_a_megabyte_for_a_thousand_ops(made: Path) -> None:
    for name in SCRIPTS:
        place = made / name / "traced"
        ops = traced(made, name).spans.filter(pl.col("rank") == 0).height
        assert (place / "rank-0.jsonl").stat().st_size / ops < 1000


def test_nothing_went_wrong_in_any_tracer(made: Path) -> None:
    assert [*made.rglob("tracer.log")] == []


@pytest.fixture
def run(made: Path) -> Trace:
    return load_run(made / "block" / "run")


def test_a_block_is_traced_and_what_follows_it_is_not(run: Trace) -> None:
    assert run.meta.finished
    assert run.spans["kind"].to_list() == ["all_reduce"] * 6
    assert run.spans["elements"].to_list() == [100] * 6


def test_the_parts_of_a_block_are_gone_once_it_is_a_run(made: Path, run: Trace) -> None:
    assert run.ranks == (0, 1)
    assert not (made / "block" / "run.parts").exists()
