"""Rows move as promised whichever way they go; a paced link takes what its rate says."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from zerosim.errors import InputError, RuntimeFailedError, UnknownNameError
from zerosim_runtime.collectives import communicator
from zerosim_runtime.launch import run_ranks
from zerosim_runtime.pace import Pace, parse_backend

PROGRAM = Path(__file__).with_name("links_program.py")
Reports = Callable[[int], list[dict[str, Any]]]


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Reports:
    """What the ranks of one launch found."""
    made: dict[int, list[dict[str, Any]]] = {}

    def of(n: int) -> list[dict[str, Any]]:
        if n not in made:
            directory = tmp_path_factory.mktemp(f"links-{n}")
            code = run_ranks([str(PROGRAM), str(directory)], directory, n)
            assert code == 0, (directory / "torchrun.log").read_text()
            files = [directory / f"report-{rank}.json" for rank in range(n)]
            made[n] = [orjson.loads(file.read_bytes()) for file in files]
        return made[n]

    return of


@pytest.mark.runtime
def test_two_ranks_reduce_scatter_the_same_bits_by_all_to_all_as_natively(reports: Reports) -> None:
    for report in reports(2):
        rows = report["rows"]
        assert rows["float32"]["equal"]
        assert rows["float64"]["equal"]
        assert rows["int32"]["equal"]


@pytest.mark.runtime
@pytest.mark.parametrize("n", [2, 3])
def test_gathers_in_pieces_bring_the_same_rows(reports: Reports, n: int) -> None:
    assert all(row["gathered"] for report in reports(n) for row in report["rows"].values())


@pytest.mark.runtime
def test_sums_of_three_ranks_are_right_and_16_bits_are_summed_in_32(reports: Reports) -> None:
    for report in reports(3):
        rows = report["rows"]
        assert rows["float64"]["error"] < 1e-12
        assert rows["float32"]["error"] < 1e-3
        assert rows["bfloat16"]["error"] < 0.75 * rows["bfloat16"]["native_error"]
        assert rows["float16"]["error"] < 0.75 * rows["float16"]["native_error"]


@pytest.mark.runtime
def test_a_paced_collective_ends_when_the_last_rank_has_come_and_its_bytes_have_passed(
    reports: Reports,
) -> None:
    # Half of 800 kB at 4 MB/s is 100 ms, after a rank that is 100 ms late and a latency of 10 ms.
    for report in reports(2):
        gather, reduce, native, split = report["paced"]
        assert gather == pytest.approx(0.21, abs=0.03)
        assert reduce == pytest.approx(0.31, abs=0.03)
        assert native == pytest.approx(0.31, abs=0.03)
        assert split == pytest.approx(0.21, abs=0.03)


@pytest.mark.runtime
def test_communicators_of_one_paced_link_share_its_rate(reports: Reports) -> None:
    for report in reports(2):
        assert max(report["shared"]) == pytest.approx(0.2, abs=0.03)
        assert min(report["shared"]) > 0.17


def test_flows_on_a_link_each_get_their_part() -> None:
    link = Pace(1e6)
    now = time.perf_counter_ns()
    short, long = link.begin(now, 20_000), link.begin(now, 60_000)
    # 20 kB at half of 1 MB/s: 40 ms; the other has then 40 kB left, alone: 80 ms.
    assert (link.finish(short) - now) / 1e6 == pytest.approx(40, abs=3)
    assert (link.finish(long) - now) / 1e6 == pytest.approx(80, abs=3)


def test_a_transfer_that_should_be_over_ends_at_once() -> None:
    link = Pace(1e6)
    flow = link.begin(time.perf_counter_ns() - 10**9, 1000)
    before = time.perf_counter()
    link.finish(flow)
    assert time.perf_counter() - before < 0.01


def test_a_paced_backend_says_its_rate_and_latency() -> None:
    name, pace = parse_backend("paced:400Mbit,50us")
    assert pace is not None
    assert (name, pace.rate_bytes_s) == ("gloo", 50e6)
    assert pace.latency_s == pytest.approx(50e-6)
    name, pace = parse_backend("paced:1.5Gbit")
    assert pace is not None
    assert (name, pace.rate_bytes_s, pace.latency_s) == ("gloo", 187.5e6, 0)
    assert parse_backend("nccl") == ("nccl", None)


@pytest.mark.parametrize(
    ("text", "error", "told"),
    [
        ("paced", InputError, "backend 'paced' says no rate: write paced:RATE"),
        ("paced:fast", InputError, "rate is 'fast': give bits a second"),
        ("paced:0Mbit", InputError, "rate is '0Mbit': give bits"),
        ("paced:4Mbit,soon", InputError, "latency is 'soon': give a time, as in 50us"),
        ("glo", UnknownNameError, "no backend 'glo': did you mean 'gloo'"),
    ],
)
def test_a_backend_that_cannot_be_read_is_refused(
    text: str, error: type[Exception], told: str
) -> None:
    with pytest.raises(error, match=told):
        parse_backend(text)


@pytest.mark.usefixtures("alone")
def test_only_gloo_is_paced_or_scatters_by_all_to_all() -> None:
    with pytest.raises(RuntimeFailedError, match="backend 'nccl' has no a pace: use gloo"):
        communicator("nccl", 30, pace=Pace(1e6))
    with pytest.raises(UnknownNameError, match="no scatter 'a2a'"):
        communicator("gloo", 30, scatter="a2a")
