"""Clocks are compared by the ends of collectives, shown, and moved only on request."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from zerosim.analysis.skew import measure_skew
from zerosim.analysis.summary import summarize
from zerosim.cli import run
from zerosim.errors import TraceFileError
from zerosim.importers import read
from zerosim.importers.choice import Choice
from zerosim.store import load_run, save_run

ALIGN = Choice(align=True)


def all_reduces(chrome: Any, rank: int, ahead: float, *, group: str = "0") -> Any:
    """Five all-reduces of a step: rank 1 arrives 40 µs late in each, all leave together.

    The clock of the rank is `ahead` µs of the true one.
    """
    trace = chrome(rank=rank, world_size=4)
    trace.step(1, 900 + ahead, 5000)
    late = 40 if rank == 1 else 0
    for i in range(5):
        begin = 1000 * (i + 1) + ahead
        name = {"Process_Group_Name": group, "Group_size": 2} if group != "0" else {}
        trace.collective("allreduce", begin + late, 300 - late, launched=begin - 10, **name)
    memory = trace.slice("cpu_instant_event", "[memory]", 1000 + ahead, 0)
    memory["ph"] = "i"
    memory["args"] = {"Total Allocated": 10, "Device Type": 1, "Device Id": 0}
    return trace


@pytest.fixture
def apart(chrome: Any, tmp_path: Path) -> list[Path]:
    """Three ranks whose clocks are 0, 90 ms ahead and 2 ms behind."""
    return [
        all_reduces(chrome, rank, ahead).write(tmp_path / f"{rank}.json")
        for rank, ahead in ((0, 0), (1, 90_000), (2, -500))
    ]


def test_how_far_clocks_are_apart_is_shown_and_nothing_is_moved(
    apart: list[Path], base_ns: int
) -> None:
    trace = read(apart)
    clock = trace.meta.clock
    assert (clock.aligned, clock.corrected, clock.error_ns) == (False, False, None)
    assert clock.offsets_ns == ((0, 0), (1, -90_000_000), (2, 500_000))
    first = trace.spans.filter(pl.col("rank") == 1)["start_ns"][0]
    assert first == base_ns + 91_040_000


def test_on_request_they_are_moved_together(apart: list[Path], base_ns: int) -> None:
    trace = read(apart, choice=ALIGN)
    clock = trace.meta.clock
    assert (clock.aligned, clock.corrected, clock.error_ns) == (True, True, 0)
    assert clock.offsets_ns == ((0, 0), (1, -90_000_000), (2, 500_000))
    starts = [trace.spans.filter(pl.col("rank") == rank)["start_ns"][0] for rank in (0, 1, 2)]
    assert [start - base_ns for start in starts] == [1_000_000, 1_040_000, 1_000_000]
    issued = trace.spans["issued_ns"].to_list()
    assert issued[0] == issued[5] == issued[10]
    assert {(w.start_ns - base_ns, w.end_ns - base_ns) for w in trace.meta.steps} == {
        (900_000, 5_900_000)
    }
    assert (trace.samples["time_ns"] == base_ns + 1_000_000).all()
    assert measure_skew(trace).straggler == 1
    assert "the clocks of the ranks were moved by up to 90 ms, to where collectives end" in (
        trace.meta.quality.warnings
    )


def test_no_duration_changes(apart: list[Path]) -> None:
    plain, moved = (summarize(read(apart, choice=choice)) for choice in (Choice(), ALIGN))
    for a, b in zip(plain["ranks"], moved["ranks"], strict=True):
        assert (a["whole"], a["by_step"]) == (b["whole"], b["by_step"])


def test_ranks_are_placed_along_the_groups_that_they_share(chrome: Any, tmp_path: Path) -> None:
    # 0 and 1 share a group, 1 and 2 another: 2 is placed by way of 1.
    paths = []
    for rank, ahead, groups in ((0, 0, "a"), (1, 70, "ab"), (2, 30, "b")):
        trace = chrome(rank=rank, world_size=3)
        for i in range(3):
            for group in groups:
                begin = 1000 * (i + 1) + (500 if group == "b" else 0) + ahead
                names = {"Process_Group_Name": group, "Process_Group_Ranks": "[]"}
                trace.collective("allreduce", begin, 300, launched=begin - 10, **names)
        paths.append(trace.write(tmp_path / f"{rank}.json"))
    assert read(paths).meta.clock.offsets_ns == ((0, 0), (1, -70_000), (2, -30_000))


def test_one_odd_collective_does_not_move_a_clock(chrome: Any, tmp_path: Path) -> None:
    paths = []
    for rank in (0, 1):
        trace = chrome(rank=rank)
        for i in range(9):
            odd = 250 if rank == 1 and i == 4 else 0
            trace.collective("allreduce", 1000 * (i + 1), 300 + odd, launched=1000 * i + 10)
        paths.append(trace.write(tmp_path / f"{rank}.json"))
    assert read(paths).meta.clock.offsets_ns == ((0, 0), (1, 0))


def test_ranks_that_share_nothing_cannot_be_aligned(chrome: Any, tmp_path: Path) -> None:
    paths = []
    for rank in (0, 1):
        trace = chrome(rank=rank)
        trace.kernel("gemm", 100, 50, launched=10)
        paths.append(trace.write(tmp_path / f"{rank}.json"))
    assert read(paths).meta.clock.offsets_ns == ()
    with pytest.raises(TraceFileError, match="rank 0 shares no timed collective with the others"):
        read(paths, choice=ALIGN)
    assert read(paths[:1], choice=ALIGN).ranks == (0,)


def test_files_without_a_common_start_meet_at_their_collectives(
    chrome: Any, tmp_path: Path
) -> None:
    paths = []
    for rank in (0, 1):
        trace = all_reduces(chrome, rank, rank * 700)
        trace.header = {"baseTimeNanoseconds": None}
        paths.append(trace.write(tmp_path / f"{rank}.json"))
    assert not read(paths).meta.clock.aligned
    clock = read(paths, choice=ALIGN).meta.clock
    assert (clock.aligned, clock.offsets_ns) == (True, ((0, 0), (1, -700_000)))


def test_an_estimate_is_stored_and_read_back(apart: list[Path], tmp_path: Path) -> None:
    trace = read(apart)
    assert load_run(save_run(trace, tmp_path / "run")).meta.clock == trace.meta.clock


def test_the_report_says_what_was_moved(
    apart: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [str(path) for path in apart]
    assert run(["import", *files, "-o", str(tmp_path / "a")]) == 0
    assert (
        "ranks cannot be compared as they are; collectives would end together if moved: rank 1 by -90 ms, rank 2 by +500 µs"
        in capsys.readouterr().out
    )
    assert run(["import", *files, "--align-clocks", "-o", str(tmp_path / "b")]) == 0
    assert (
        "ranks agree, within 0 ns; moved: rank 1 by -90 ms, rank 2 by +500 µs"
        in capsys.readouterr().out
    )
