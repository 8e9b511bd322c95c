"""Several files become one trace; what cannot be one is refused with a sentence."""

from __future__ import annotations

import gzip
import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from zerosim.errors import TraceFileError
from zerosim.importers import IMPORTERS, read
from zerosim.store import load_run, save_run

GOLDEN = Path(__file__).parents[2] / "golden" / "gloo_ddp"


@pytest.fixture
def two_ranks(chrome: Any, tmp_path: Path) -> list[Path]:
    """Rank 1 arrives 40 µs after rank 0 in each of two all-gathers; both leave together."""
    paths = []
    for rank, late in ((0, 0), (1, 40)):
        trace = chrome(rank=rank)
        trace.step(5, 1000, 1000)
        for start in (1100, 1500):
            trace.collective("_allgather_base", start + late, 300 - late, launched=start - 50)
        paths.append(trace.write(tmp_path / f"{rank}.json"))
    return paths


def test_ranks_are_tied_together(two_ranks: list[Path]) -> None:
    trace = read(two_ranks)
    assert trace.ranks == (0, 1)
    assert trace.spans["collective"].to_list() == [0, 1, 0, 1]
    assert trace.meta.world_size == 2
    assert trace.meta.clock.aligned


def test_the_order_of_the_files_does_not_matter(two_ranks: list[Path]) -> None:
    assert read(two_ranks).spans.equals(read(two_ranks[::-1]).spans)


def test_the_name_is_given_or_that_of_the_file_or_folder(two_ranks: list[Path]) -> None:
    assert read(two_ranks, name="mine").meta.name == "mine"
    assert read(two_ranks[:1]).meta.name == "0"
    assert read(two_ranks).meta.name == two_ranks[0].parent.name
    assert read([two_ranks[0].parent]).meta.name == two_ranks[0].parent.name


def test_a_path_without_a_name_of_its_own_still_names_the_run(
    two_ranks: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(two_ranks[0].parent)
    assert read([Path()]).meta.name == two_ranks[0].parent.name
    hidden = two_ranks[0].rename(two_ranks[0].with_name(".trace.json"))
    assert read([hidden]).meta.name == "trace"


def test_a_folder_means_its_files_and_leaves_out_the_rest_aloud(two_ranks: list[Path]) -> None:
    (two_ranks[0].parent / "notes.txt").write_text("hello")
    (two_ranks[0].parent / ".hidden").write_text("hello")
    trace = read([two_ranks[0].parent])
    assert trace.ranks == (0, 1)
    assert any(
        w.startswith("'notes.txt' left out: it is text") for w in trace.meta.quality.warnings
    )


def test_clocks_far_apart_are_not_called_aligned(chrome: Any, tmp_path: Path) -> None:
    paths = []
    for rank in (0, 1):
        trace = chrome(rank=rank)
        for i in range(5):
            trace.collective("allreduce", 1000 * (i + 1) + 90_000 * rank, 9, launched=1000 * i + 1)
        paths.append(trace.write(tmp_path / f"{rank}.json"))
    meta = read(paths).meta
    assert not meta.clock.aligned
    assert any("disagree by at least 90 ms" in w for w in meta.quality.warnings)


def test_files_without_a_common_start_are_not_called_aligned(
    two_ranks: list[Path], chrome: Any, tmp_path: Path
) -> None:
    trace = chrome(rank=1, header={"baseTimeNanoseconds": None})
    trace.collective("_allgather_base", 100, 5, launched=1)
    meta = read([two_ranks[0], trace.write(tmp_path / "x.json")]).meta
    assert not meta.clock.aligned
    assert any("when their clocks started" in w for w in meta.quality.warnings)


def test_bases_of_different_quarters_meet_in_absolute_time(
    two_ranks: list[Path], chrome: Any, tmp_path: Path, base_ns: int
) -> None:
    quarter = 7_889_238_000_000
    trace = chrome(rank=1, header={"baseTimeNanoseconds": base_ns - quarter * 1000})
    trace.collective("_allgather_base", quarter + 1140, 260, launched=quarter + 1050)
    spans = read([two_ranks[0], trace.write(tmp_path / "x.json")]).spans
    assert spans.filter(pl.col("rank") == 1)["start_ns"].to_list() == [base_ns + 1_140_000]
    assert spans["collective"].to_list() == [0, 1, 0]


def test_an_imported_run_is_stored_and_read_back_whole(
    two_ranks: list[Path], tmp_path: Path
) -> None:
    trace = read(two_ranks)
    again = load_run(save_run(trace, tmp_path / "run"))
    assert again.spans.equals(trace.spans)
    assert again.meta == trace.meta


def test_a_file_without_events_is_a_trace_without_rows(chrome: Any, tmp_path: Path) -> None:
    trace = read([chrome().write(tmp_path / "empty.json")])
    assert trace.spans.height == 0
    assert trace.meta.quality.warnings == ("'empty.json' has no events",)


def test_gzip_works_whatever_the_suffix(two_ranks: list[Path], tmp_path: Path) -> None:
    path = tmp_path / "zipped.json"
    path.write_bytes(gzip.compress(two_ranks[0].read_bytes()))
    assert read([path]).spans.height == 2


@dataclass
class Bomb:
    """A pickle that would write a file if anyone loaded it."""

    path: str

    def __reduce__(self) -> tuple[Any, tuple[str, str]]:
        return (open, (self.path, "w"))


def test_a_pickle_is_never_loaded(tmp_path: Path) -> None:
    path = tmp_path / "dump_0"
    path.write_bytes(pickle.dumps(Bomb(str(tmp_path / "pwned"))))
    with pytest.raises(TraceFileError, match="is a Python pickle, but no flight"):
        read([path])
    assert not (tmp_path / "pwned").exists()


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "is an empty file"),
        (b"hello", r"is text without a line of a known log .*: known formats are"),
        (b'{"a": [', "is no JSON, or damaged"),
        (b'{"traceEvents": 5}', "has no list of traceEvents"),
        (b'{"traceEvents": [{"ph": "X", "na', "ends inside an event"),
        (b'{"traceEvents": ' + b"[" * 100_000, "nested too deeply|ends inside"),
        (b"\x1f\x8b\x08\x00", "truncated gzip"),
        (b"\x1f\x8bnot really", "damaged gzip"),
        (b"\x80\x04\x95", "Python pickle"),
        (b"\xff" * 99, "is a binary file of unknown format"),
    ],
)
def test_hostile_files_are_refused_with_a_sentence(tmp_path: Path, data: bytes, says: str) -> None:
    path = tmp_path / "input"
    path.write_bytes(data)
    with pytest.raises(TraceFileError, match=says) as refusal:
        read([path])
    assert "\n" not in str(refusal.value)


def test_no_files_and_no_traces_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceFileError, match="no files given"):
        read([])
    with pytest.raises(TraceFileError, match="no trace in"):
        read([tmp_path])
    with pytest.raises(TraceFileError, match="cannot read"):
        read([tmp_path / "gone.json"])


def test_times_at_the_edge_of_reason_do_not_overflow(chrome: Any, tmp_path: Path) -> None:
    trace = chrome(header={"baseTimeNanoseconds": 2**61 - 1})
    trace.kernel("gemm", 2**61 // 1000 - 1, 2**61 // 1000 - 1, launched=None)
    trace.kernel("gemm", 2**61 // 1000 + 1, 5, launched=None)
    found = read([trace.write(tmp_path / "edge.json")])
    assert found.spans.height == 1
    assert found.meta.quality.skipped == 1


@pytest.mark.parametrize(
    "args",
    [
        {"correlation": [1], "device": {}, "stream": None},
        {"correlation": 2**70, "External id": {"a": 1}},
        {"Collective name": 5, "Group size": -1},
        {"Collective name": "allreduce", "In msg nelems": 2**80, "Process Group Name": ["x"]},
        "no arguments",
    ],
)
def test_odd_arguments_of_a_kernel_are_unknown(chrome: Any, tmp_path: Path, args: Any) -> None:
    trace = chrome()
    event = trace.kernel("ncclDevKernel_AllReduce", 10, 5, launched=1)
    event["args"] = args
    spans = read([trace.write(tmp_path / "odd.json")]).spans
    assert spans["kind"].to_list()[0] == "all_reduce"
    assert spans["elements"].to_list()[0] is None


def test_every_format_of_the_registry_has_its_page_in_the_docs() -> None:
    headings = (Path(__file__).parents[3] / "docs" / "importers.md").read_text().splitlines()
    assert "kineto" in IMPORTERS
    assert [name for name in IMPORTERS if f"## {name}" not in headings] == []


def test_every_imported_trace_keeps_the_rules_of_a_trace() -> None:
    spans = read([GOLDEN]).spans
    assert (spans["end_ns"] >= spans["start_ns"]).all()
    issued = spans.drop_nulls("issued_ns")
    assert (issued["start_ns"] >= issued["issued_ns"]).all()
    per_rank = [frame["issued_ns"] for _, frame in issued.group_by("rank")]
    assert all(column.is_sorted() for column in per_rank)
    assert (spans["nbytes"].drop_nulls() > 0).all()
