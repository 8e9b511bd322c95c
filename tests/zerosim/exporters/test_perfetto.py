"""Perfetto's format: every slice on a track of its rank, none that its reader would have to drop."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from tests.zerosim.exporters.sameness import counters, table
from zerosim.errors import InputError
from zerosim.exporters import export
from zerosim.exporters.perfetto.schema import TraceFile
from zerosim.trace import Meta, Trace, make_trace

Row = dict[str, Any]


@pytest.fixture(params=["lesson", "gloo", "odd"])
def any_trace(request: pytest.FixtureRequest) -> Trace:
    trace: Trace = request.getfixturevalue(request.param)
    return trace


def packets_of(trace: Trace, path: Path, reader: Any = TraceFile) -> list[Any]:
    export(trace, "perfetto", path)
    return list(reader.FromString(path.read_bytes()).packet)


def slices_of(packets: list[Any]) -> list[Row]:
    """What a reader makes of it: the end of a slice closes the last one that its track has open."""
    tracks = {p.track_descriptor.uuid: p.track_descriptor for p in packets if has(p)}
    opened: dict[int, list[Row]] = defaultdict(list)
    slices: list[Row] = []
    # Readers sort by time and leave what is of one time in the order of the file.
    for packet in sorted((p for p in packets if not has(p)), key=lambda p: p.timestamp):
        event, track = packet.track_event, tracks[packet.track_event.track_uuid]
        if event.type == 1:
            row = {a.name: a.string_value or a.int_value for a in event.debug_annotations}
            row |= {"name": event.name, "start_ns": packet.timestamp, "stream": track.name}
            row["rank"] = tracks[track.parent_uuid].process.pid - 1
            row["flows"] = (list(event.flow_ids), list(event.terminating_flow_ids))
            opened[event.track_uuid].append(row)
            slices.append(row)
        elif event.type == 2:
            opened[event.track_uuid].pop()["end_ns"] = packet.timestamp
    assert not any(opened.values())
    return slices


def has(packet: Any) -> bool:
    return bool(packet.HasField("track_descriptor"))


def test_every_span_is_a_slice_with_its_times_and_what_is_known(
    any_trace: Trace, tmp_path: Path
) -> None:
    known = ("rank", "start_ns", "end_ns", "name", "kind", "unit", "issued_ns", "step", "group")
    more = ("elements", "nbytes", "dtype", "flags")
    slices = [s for s in slices_of(packets_of(any_trace, tmp_path / "t")) if "kind" in s]
    expected = [[row[column] for column in (*known, *more)] for row in table(any_trace)]
    found = [[piece.get(column) for column in (*known, *more)] for piece in slices]
    assert sorted(found, key=str) == sorted(expected, key=str)


def test_nothing_crosses_on_a_track(any_trace: Trace, tmp_path: Path) -> None:
    tracks = defaultdict(list)
    for row in slices_of(packets_of(any_trace, tmp_path / "t")):
        tracks[(row["rank"], row["stream"])].append((row["start_ns"], row["end_ns"]))
    for pieces in tracks.values():
        ends: list[int] = []
        for start, end in sorted(pieces, key=lambda p: (p[0], -p[1])):
            while ends and ends[-1] <= start:
                ends.pop()
            assert not ends or end <= ends[-1]
            ends.append(end)


def test_what_crosses_lies_on_a_track_beside_it(odd: Trace, tmp_path: Path) -> None:
    slices = slices_of(packets_of(odd, tmp_path / "t"))
    names = {row["name"]: row["stream"] for row in slices}
    assert names["AG"] == "stream 20"
    assert names[odd.spans["name"][1]] == "stream 20 (2)"


def test_a_launch_and_what_it_launched_are_ends_of_one_flow(lesson: Trace, tmp_path: Path) -> None:
    slices = slices_of(packets_of(lesson, tmp_path / "t"))
    begun = [flow for row in slices for flow in row["flows"][0]]
    ended = [flow for row in slices for flow in row["flows"][1]]
    assert len(set(begun)) == len(begun) == 108
    assert sorted(begun) == sorted(ended)


def test_counters_are_the_samples(any_trace: Trace, tmp_path: Path) -> None:
    packets = packets_of(any_trace, tmp_path / "t")
    tracks = {p.track_descriptor.uuid: p.track_descriptor for p in packets if has(p)}
    found = [
        (
            p.timestamp,
            tracks[tracks[p.track_event.track_uuid].parent_uuid].process.pid - 1,
            tracks[p.track_event.track_uuid].name,
            p.track_event.counter_value,
        )
        for p in packets
        if p.track_event.type == 4
    ]
    by_track = sorted(counters(any_trace), key=lambda row: (row[1], row[2]))
    assert sorted(found, key=lambda row: (row[1], row[2])) == by_track


def test_a_trace_that_begins_before_0_is_moved_to_0(tmp_path: Path) -> None:
    row = {"rank": [0], "stream": ["s"], "kind": ["other"], "name": ["x"]}
    spans = row | {"start_ns": [-7], "end_ns": [3]}
    trace = make_trace(spans, Meta(name="early", source="imported", world_size=1))
    (piece,) = slices_of(packets_of(trace, tmp_path / "t"))
    assert (piece["start_ns"], piece["end_ns"]) == (0, 10)


def test_perfettos_own_classes_read_the_same(any_trace: Trace, tmp_path: Path) -> None:
    protos = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")
    theirs = packets_of(any_trace, tmp_path / "t", protos.Trace)
    assert slices_of(theirs) == slices_of(packets_of(any_trace, tmp_path / "t"))


def test_a_run_in_which_nothing_happened_is_refused(tmp_path: Path) -> None:
    empty = make_trace({}, Meta(name="idle", source="simulated", world_size=1))
    with pytest.raises(InputError, match="'idle' has no spans"):
        export(empty, "perfetto", tmp_path / "out")
    assert list(tmp_path.iterdir()) == []
