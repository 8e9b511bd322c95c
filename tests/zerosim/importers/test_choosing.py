"""The part of a run that was asked for is what is loaded; what is not there is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from zerosim.analysis.summary import summarize
from zerosim.errors import TraceFileError
from zerosim.importers import kineto, read
from zerosim.importers.choice import Choice
from zerosim.importers.kineto.events import sort_events
from zerosim.kinds import Kind


@pytest.fixture
def files(two_steps: Any, tmp_path: Path) -> list[Path]:
    """Ranks 0 and 1 with steps 5 and 6, each 1000 µs, the first starting with the run's 100 µs."""
    paths = []
    for rank in (0, 1):
        two_steps.rank = rank
        paths.append(two_steps.write(tmp_path / f"{rank}.json"))
    return paths


def names(files: list[Path], **choice: Any) -> list[str]:
    spans = read(files, choice=Choice(**choice)).spans
    return [f"{rank}:{kind}" for rank, kind in spans.select("rank", "kind").iter_rows()]


def test_ranks_alone(files: list[Path]) -> None:
    trace = read(files, choice=Choice(ranks=frozenset({1})))
    assert trace.ranks == (1,)
    assert {w.rank for w in trace.meta.steps} == {1}
    assert trace.meta.world_size == 2
    assert "ranks of the files that were not asked for: 1" in trace.meta.quality.warnings
    with pytest.raises(TraceFileError, match="no rank 7 in the files: they are of 0, 1"):
        read(files, choice=Choice(ranks=frozenset({1, 7})))


def test_steps_alone(files: list[Path]) -> None:
    trace = read(files, choice=Choice(steps=(6, 9)))
    assert trace.spans["step"].unique().to_list() == [6]
    assert {w.step for w in trace.meta.steps} == {6}
    assert summarize(trace)["step_ns"] == 1_000_000
    with pytest.raises(TraceFileError, match="no steps 7 to 9: the files have 5 to 6"):
        read(files, choice=Choice(steps=(7, 9)))


def test_steps_of_a_file_that_marks_none_are_refused(chrome: Any, tmp_path: Path) -> None:
    trace = chrome()
    trace.kernel("gemm", 1, 1, launched=0)
    with pytest.raises(TraceFileError, match="no steps 1 to 2: the files mark none"):
        read([trace.write(tmp_path / "a.json")], choice=Choice(steps=(1, 2)))


def test_a_window_holds_what_touches_it(files: list[Path]) -> None:
    # From the first all-gather on: gather 0-300 µs, GEMM 100-500, reduce-scatter 600-800.
    assert names(files[:1], window=(350_000, 400_000)) == ["0:other"]
    assert names(files[:1], window=(None, 50_000)) == ["0:all_gather"]
    assert names(files[:1], window=(1_550_000, None)) == ["0:reduce_scatter"]
    with pytest.raises(TraceFileError, match=r"nothing ran in that window: the run lasts 1.8 ms"):
        read(files, choice=Choice(window=(5_000_000, None)))


def test_a_step_that_a_window_cuts_has_no_figures(files: list[Path]) -> None:
    trace = read(files, choice=Choice(window=(0, 1_500_000)))
    assert {w.step for w in trace.meta.steps} == set()
    assert summarize(trace)["step_ns"] is None


def test_kinds_alone_and_the_report_says_so(files: list[Path]) -> None:
    trace = read(files, choice=Choice(kinds=frozenset({Kind.ALL_GATHER})))
    assert trace.spans["kind"].unique().to_list() == ["all_gather"]
    assert trace.spans["collective"].to_list() == [0, 2, 0, 2]
    assert "only all_gather loaded: figures count nothing else" in trace.meta.quality.warnings


def test_samples_keep_to_the_steps(chrome: Any, tmp_path: Path) -> None:
    trace = chrome()
    for number, start in ((1, 1000), (2, 2000)):
        trace.step(number, start, 1000)
        trace.kernel("gemm", start + 100, 10, launched=start + 50)
        memory = trace.slice("cpu_instant_event", "[memory]", start + 20, 0)
        memory["ph"] = "i"
        memory["args"] = {"Total Allocated": number * 10, "Device Type": 1, "Device Id": 0}
    path = trace.write(tmp_path / "a.json")
    assert read([path], choice=Choice(steps=(2, 2))).samples["value"].to_list() == [20]
    assert read([path], choice=Choice(window=(None, 500_000))).samples["value"].to_list() == [10]


def test_the_rank_given_is_that_of_the_one_silent_file(chrome: Any, tmp_path: Path) -> None:
    silent = chrome(rank=None)
    silent.kernel("gemm", 1, 1, launched=0)
    told = chrome(rank=0)
    told.kernel("gemm", 1, 1, launched=0)
    paths = [silent.write(tmp_path / "a.json"), told.write(tmp_path / "b.json")]
    trace = read(paths, choice=Choice(rank=5))
    assert trace.ranks == (0, 5)
    with pytest.raises(TraceFileError, match=r"--rank 5 names one file, but 'a.json' and 1 more"):
        read([*paths, silent.write(tmp_path / "c.json")], choice=Choice(rank=5))


def test_times_that_cannot_be_read_are_named_by_their_byte(chrome: Any, tmp_path: Path) -> None:
    trace = chrome()
    trace.kernel("gemm", 1, 1, launched=0)
    trace.kernel("gemm", "soon", 1, launched=None)
    trace.kernel("gemm", None, 1, launched=None)
    path = trace.write(tmp_path / "a.json")
    quality = read([path]).meta.quality
    raw = path.read_bytes()
    assert quality.skipped == 2
    assert [(p.byte, p.what) for p in quality.places] == [
        (raw.index(b'"ts": "soon"'), 'time "soon" cannot be read: left out'),
        (raw.index(b'"ts": null'), "time null cannot be read: left out"),
    ]
    with pytest.raises(TraceFileError, match=r"events: 2 left out, the first in 'a.json' at byte"):
        read([path], choice=Choice(strict=True))


def test_who_watches_hears_of_each_file(files: list[Path]) -> None:
    heard: list[tuple[str, float]] = []
    read(files, watch=lambda name, share: heard.append((name, share)))
    assert heard == [("0.json", 0.0), ("1.json", 0.5)]


def test_files_of_other_ranks_are_not_read(
    files: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    sorted_in: list[str] = []

    def counted(*args: Any) -> Any:
        sorted_in.append("a file")
        return sort_events(*args)

    monkeypatch.setattr(kineto, "sort_events", counted)
    assert read(files, choice=Choice(ranks=frozenset({1}))).ranks == (1,)
    assert len(sorted_in) == 1


def test_a_rank_that_only_its_name_tells_is_found_beside_the_others(
    two_steps: Any, tmp_path: Path
) -> None:
    two_steps.rank = 0
    paths = [two_steps.write(tmp_path / f"rank{rank}.json") for rank in (0, 1)]
    assert read(paths, choice=Choice(ranks=frozenset({1}))).ranks == (1,)
