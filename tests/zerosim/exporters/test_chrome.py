"""Chrome JSON reads like a real run, and comes back as the table it was."""

from __future__ import annotations

import gzip
from collections import defaultdict
from itertools import chain
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.zerosim.exporters.sameness import counters, table
from zerosim.analysis.summary import summarize
from zerosim.errors import InputError, TraceFileError
from zerosim.exporters import export
from zerosim.importers import kineto, read
from zerosim.importers.choice import ALL, Choice
from zerosim.importers.content import read_content
from zerosim.trace import Meta, Trace, make_trace

SETS = ("own-gloo-fsdp2_rs", "KellerJordan+modded-nanogpt", "pytorch+torchrec")


@pytest.fixture(params=["lesson", "gloo", "odd"])
def any_trace(request: pytest.FixtureRequest) -> Trace:
    trace: Trace = request.getfixturevalue(request.param)
    return trace


def events_of(path: Path) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = orjson.loads(path.read_bytes())["traceEvents"]
    return events


def is_kineto(path: Path) -> bool:
    return kineto.sniff(read_content(path).raw)


@pytest.mark.parametrize("name", ["ranks", "all.json", "all.json.gz"])
def test_it_comes_back_as_the_same_table(any_trace: Trace, name: str, tmp_path: Path) -> None:
    export(any_trace, "chrome", tmp_path / name)
    again = read([tmp_path / name])
    assert table(again) == table(any_trace)
    assert counters(again) == counters(any_trace)
    assert set(again.meta.steps) == set(any_trace.meta.steps)
    assert again.meta.groups == any_trace.meta.groups
    assert again.meta.world_size == any_trace.meta.world_size
    assert again.meta.device == any_trace.meta.device
    assert again.meta.quality.skipped == 0


def test_there_is_one_file_a_rank_or_one_for_all(lesson: Trace, tmp_path: Path) -> None:
    export(lesson, "chrome", tmp_path / "ranks")
    export(lesson, "chrome", tmp_path / "all.json.gz")
    files = sorted((tmp_path / "ranks").iterdir())
    assert [file.name for file in files] == [f"rank{r}.pt.trace.json.gz" for r in range(3)]
    events = [orjson.loads(gzip.decompress(f.read_bytes()))["traceEvents"] for f in files]
    whole = orjson.loads(gzip.decompress((tmp_path / "all.json.gz").read_bytes()))
    assert list(chain.from_iterable(events)) == whole["traceEvents"]
    assert "rank" not in whole["distributedInfo"]


def test_nothing_crosses_on_a_thread(any_trace: Trace, tmp_path: Path) -> None:
    export(any_trace, "chrome", tmp_path / "all.json")
    threads = defaultdict(list)
    for event in events_of(tmp_path / "all.json"):
        if event["ph"] == "X":
            start = round(event["ts"] * 1000)
            place = (event["pid"], event["tid"])
            threads[place].append((start, start + round(event["dur"] * 1000)))
    assert threads
    for slices in threads.values():
        slices.sort(key=lambda s: (s[0], -s[1]))
        for i, (start, end) in enumerate(slices):
            inside = [later for later in slices[i + 1 :] if start <= later[0] < end]
            assert all(later[1] <= end for later in inside)


def test_a_kernel_has_its_launch_and_an_arrow_between_them(lesson: Trace, tmp_path: Path) -> None:
    export(lesson, "chrome", tmp_path / "all.json")
    events = events_of(tmp_path / "all.json")
    kernels = {e["args"]["correlation"]: e for e in events if e.get("cat") == "kernel"}
    launches = {e["args"]["correlation"]: e for e in events if e.get("cat") == "cuda_runtime"}
    assert kernels.keys() == launches.keys()
    assert len(kernels) == 108
    for end, slices in (("s", launches), ("f", kernels)):
        arrows = {e["id"]: (e["ts"], e["pid"], e["tid"]) for e in events if e["ph"] == end}
        assert arrows == {n: (e["ts"], e["pid"], e["tid"]) for n, e in slices.items()}


def test_a_collective_bears_the_profilers_name_and_metadata(lesson: Trace, tmp_path: Path) -> None:
    export(lesson, "chrome", tmp_path / "all.json")
    first = next(e for e in events_of(tmp_path / "all.json") if e.get("cat") == "kernel")
    assert first["name"] == "ncclDevKernel_AllGather(AG0)"
    del first["args"]["zerosim"]
    assert first["args"] == {
        "device": 0,
        "context": 1,
        "stream": 7,
        "correlation": 1_000_001,
        "Collective name": "_allgather_base",
        "In msg nelems": 196864,
        "Out msg nelems": 590592,
        "dtype": "Float",
        "Process Group Name": "world",
        "Process Group Description": "world",
        "Group size": 3,
        "Process Group Ranks": "[0, 1, 2]",
        "Seq": 0,
    }


def test_what_is_unknown_of_a_collective_is_absent(odd: Trace, tmp_path: Path) -> None:
    export(odd, "chrome", tmp_path / "all.json")
    kernels = [e for e in events_of(tmp_path / "all.json") if e.get("cat") == "kernel"]
    assert "Out msg nelems" not in kernels[1]["args"]
    assert kernels[0]["args"]["Process Group Ranks"].endswith("28, 29, ...]")
    assert kernels[0]["tid"] == 20
    assert kernels[1]["tid"] != 20  # it crosses the first one
    assert kernels[1]["args"]["stream"] == 20


def test_readers_that_know_only_kineto_see_the_same_times_and_collectives(
    lesson: Trace, tmp_path: Path
) -> None:
    export(lesson, "chrome", tmp_path / "ranks")
    content = read_content(tmp_path / "ranks" / "rank1.pt.trace.json.gz")
    (found,) = kineto.parse(content, ALL)
    mine = [row for row in table(lesson) if row["rank"] == 1]
    seen = found.spans.to_dicts()
    shift = 1_000_000  # a simulated run begins at 0, where nothing is timed
    assert (found.rank, found.world_size, len(seen)) == (1, 3, 36)
    for column in ("start_ns", "end_ns", "issued_ns"):
        assert [row[column] - shift for row in seen] == [row[column] for row in mine]
    collectives = [row for row in mine if row["group"]]
    gathered = [row for row in seen if row["group"]]
    for column in ("kind", "group", "elements", "nbytes", "dtype", "step"):
        assert [row[column] for row in gathered] == [row[column] for row in collectives]


def test_the_figures_of_the_trace_that_comes_back_are_the_same(
    lesson: Trace, tmp_path: Path
) -> None:
    export(lesson, "chrome", tmp_path / "ranks")
    before, after = summarize(lesson), summarize(read([tmp_path / "ranks"]))
    for figure in ("step_ns", "compute_ns", "comm_ns", "exposed_ns", "overlap", "bytes_sent"):
        assert after[figure] == before[figure]


@pytest.mark.parametrize("folder", SETS)
def test_real_traces_come_back_as_the_same_table(folder: str, shared: Path, tmp_path: Path) -> None:
    kineto_files = [p for p in (shared / folder).rglob("*") if p.is_file() and is_kineto(p)]
    before = read(sorted(kineto_files)[:2])
    export(before, "chrome", tmp_path / "out")
    again = read([tmp_path / "out"])
    assert table(again) == table(before)
    assert counters(again) == counters(before)


def test_a_run_in_which_nothing_happened_is_refused(tmp_path: Path) -> None:
    empty = make_trace({}, Meta(name="idle", source="simulated", world_size=1))
    with pytest.raises(InputError, match="'idle' has no spans"):
        export(empty, "chrome", tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_what_an_edited_export_lost_is_said(lesson: Trace, tmp_path: Path) -> None:
    export(lesson, "chrome", tmp_path / "all.json")
    document = orjson.loads((tmp_path / "all.json").read_bytes())
    spans = [e for e in document["traceEvents"] if e.get("cat") == "kernel"]
    document["traceEvents"].remove(spans[0])
    spans[1]["args"]["zerosim"]["kind"] = "dance"
    spans[2]["dur"] = -1
    (tmp_path / "all.json").write_bytes(orjson.dumps(document))
    quality = read([tmp_path / "all.json"]).meta.quality
    assert (quality.skipped, quality.lost) == (2, 1)
    assert quality.warnings == (
        "'all.json' has 867 of the 870 spans and samples that its header speaks of",
        "'all.json' has 2 events that cannot be read: left out",
    )


def test_of_an_export_that_is_cut_the_whole_events_are_kept_and_the_lost_counted(
    lesson: Trace, tmp_path: Path
) -> None:
    file = tmp_path / "all.json"
    export(lesson, "chrome", file)
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    with pytest.raises(TraceFileError, match="ends inside an event"):
        read([file])
    quality = read([file], choice=Choice(salvage=True)).meta.quality
    kept = read([file], choice=Choice(salvage=True))
    assert kept.spans.height + kept.samples.height + quality.lost == 870


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('"format": 1', '"format": 2', "has format 2, not 1: update zerosim"),
        ('"format": 1', '"format": null', "has format None, not 1"),
        ('"origin_ns": -1000000', '"origin_ns": 1e400', "does not say when its clock began"),
        ('"origin_ns": -1000000', '"origin_ns": 9e99', "does not say when its clock began"),
        ('"traceEvents"', '"events"', "has no list of traceEvents: export it again"),
        ('"zerosim": {', '"zerosim": [], "x": {', "has lost its header: export it again"),
    ],
)
def test_a_damaged_header_is_refused(
    old: str, new: str, says: str, lesson: Trace, tmp_path: Path
) -> None:
    file = tmp_path / "all.json"
    export(lesson, "chrome", file)
    file.write_text(file.read_text().replace(old, new, 1))
    with pytest.raises(TraceFileError, match=says):
        read([file])
