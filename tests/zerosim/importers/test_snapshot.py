"""Memory snapshots: counters counted back from what was held, and what is odd is said."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zerosim.analysis.summary import summarize
from zerosim.errors import TraceFileError
from zerosim.importers import IMPORTERS, read, snapshot
from zerosim.importers.choice import ALL, Choice
from zerosim.importers.content import Content
from zerosim.importers.recording import Recording

T = 1_758_610_505_592_849
"""The first event, in µs since the epoch."""


def event(action: str, size: int = 0, after: int = 0, **more: Any) -> dict[str, Any]:
    return {"action": action, "addr": 1, "size": size, "stream": 0, "time_us": T + after, **more}


def block(size: int, state: str) -> dict[str, Any]:
    return {"size": size + 12, "requested_size": size, "state": state, "frames": []}


HISTORY = [
    event("segment_alloc", 4096),
    event("alloc", 1000, 1),
    event("alloc", 500, 2),
    event("free_requested", 1000, 3),
    event("free_completed", 1000, 5),
    event("snapshot", 0, 6),
]


def taken(history: list[Any] | None = None, **changes: Any) -> dict[str, Any]:
    """At the end 500 bytes of the history and 200 of before are held, in two segments."""
    blocks = [block(500, "active_allocated"), block(200, "active_allocated")]
    segments = [
        {"device": 0, "total_size": 4096, "blocks": blocks},
        {"device": 0, "total_size": 2048, "blocks": [block(2000, "inactive")]},
    ]
    traces = [HISTORY if history is None else history]
    return {"segments": segments, "device_traces": traces, "allocator_settings": {}, **changes}


def recordings(document: Any, choice: Choice = ALL) -> tuple[Recording, ...]:
    return snapshot.parse(Content(Path("snapshot.pickle"), pickle.dumps(document)), choice)


def values(found: Recording, counter: str) -> list[tuple[int, int]]:
    rows = found.samples.filter(found.samples["counter"] == f"memory.{counter}")
    return [(t // 1000 - T, v) for t, v in rows.select("time_ns", "value").iter_rows()]


def test_counters_are_counted_back_from_what_was_held_at_the_end() -> None:
    (found,) = recordings(taken())
    assert values(found, "allocated") == [(0, 200), (1, 1200), (2, 1700), (3, 700)]
    assert values(found, "in_use") == [(0, 200), (1, 1200), (2, 1700), (5, 700)]
    assert values(found, "reserved") == [(0, 2048), (0, 6144)]


def test_blocks_that_await_their_end_are_in_use_but_not_allocated() -> None:
    held = [{"device": 0, "total_size": 0, "blocks": [block(100, "active_awaiting_free")]}]
    (found,) = recordings(taken([event("snapshot")], segments=held))
    assert values(found, "allocated") == [(0, 0)]
    assert values(found, "in_use") == [(0, 100)]


def test_mapped_segments_count_as_reserved() -> None:
    history = [event("segment_map", 64), event("segment_unmap", 64, 1)]
    (found,) = recordings(taken(history, segments=[]))
    assert values(found, "reserved") == [(0, 0), (0, 64), (1, 0)]


def test_a_history_longer_than_what_is_held_is_raised_and_said() -> None:
    (found,) = recordings(taken([event("free_requested", 300)], segments=[]))
    assert values(found, "allocated") == [(0, 300), (0, 0)]
    (found,) = recordings(taken([event("alloc", 300)], segments=[]))
    assert values(found, "allocated") == [(0, 0), (0, 300)]
    assert any("memory.allocated does not fit" in w for w in found.quality.warnings)


def test_each_device_with_a_history_is_a_recording() -> None:
    assert len(recordings(taken(device_traces=[[], HISTORY, [], HISTORY]))) == 2
    assert len(recordings(taken(device_traces=[[], HISTORY]))) == 1


def test_without_a_history_nothing_is_sampled_and_that_is_said() -> None:
    histories: tuple[list[list[Any]], ...] = ([], [[]], [[], []])
    for traces in histories:
        (found,) = recordings(taken(device_traces=traces))
        assert (found.samples.height, found.spans.height) == (0, 0)
        assert "has no history" in found.quality.warnings[0]


def test_running_out_of_memory_is_said() -> None:
    (found,) = recordings(taken([*HISTORY, event("oom", 9000, 7, device_free=128)]))
    assert found.quality.warnings == (
        "'snapshot.pickle' device 0: out of memory 1 times, first asking for 9000 bytes with 128 free",
    )


@pytest.mark.parametrize(
    "odd",
    [
        None,
        "text",
        {},
        event("dance", 5),
        event("alloc", 5, time_us=None),
        event("alloc", 5, time_us=0),
        event("alloc", 5, time_us=2**70),
        event("alloc", 5, time_us=10**16),
        event("alloc", -5),
        event("alloc", 2**60),
        event("alloc", size=True),
        event("alloc", 5, time_us=float("nan")),
        {**event("alloc", 5), "action": ["alloc"]},
    ],
)
def test_events_without_action_time_or_size_are_left_out_and_counted(odd: Any) -> None:
    (found,) = recordings(taken([*HISTORY, odd]))
    assert values(found, "allocated")[-1] == (3, 700)
    assert (found.quality.events, found.quality.skipped) == (7, 1)
    assert found.quality.places[0].what.startswith("device 0, event 6 has no known action")


def test_time_never_runs_back() -> None:
    (found,) = recordings(taken([event("alloc", 1, 5), event("alloc", 1, 3)]))
    assert [t for t, _ in values(found, "allocated")] == [5, 5, 5]


@pytest.mark.parametrize(
    "document",
    [
        ["segments", "device_traces"],
        {"segments": {}, "device_traces": []},
        {"segments": [], "device_traces": [[]] * 2000},
        taken([event("alloc", 2**49)] * 5000),
    ],
)
def test_what_is_no_snapshot_is_refused(document: Any) -> None:
    with pytest.raises(TraceFileError, match=r"snapshot|damaged"):
        recordings(document)


@pytest.mark.parametrize("blocks", [None, 5, [None], [{}], [{"state": []}], [{"state": "x"}]])
def test_odd_blocks_hold_nothing(blocks: Any) -> None:
    (found,) = recordings(taken(segments=[{"device": 0, "total_size": 1, "blocks": blocks}, None]))
    assert found.samples.height == 3 + 7


def test_the_run_shows_the_peak(tmp_path: Path) -> None:
    path = tmp_path / "rank_1.pickle"
    path.write_bytes(pickle.dumps(taken()))
    trace = read([path])
    assert trace.ranks == (1,)
    assert summarize(trace)["ranks"][0]["peak_bytes"] == 1700


def test_a_snapshot_that_names_a_global_is_refused() -> None:
    with pytest.raises(TraceFileError, match="names a global"):
        recordings(taken(allocator_settings=Path))


@given(place=st.integers(0, 2000), byte=st.integers(0, 255))
def test_a_changed_byte_never_loses_an_event_silently(place: int, byte: int) -> None:
    raw = bytearray(pickle.dumps(taken(), 2))
    raw[place % len(raw)] = byte
    if not IMPORTERS["memory-snapshot"].sniff(bytes(raw)):
        return
    try:
        found = snapshot.parse(Content(Path("s"), bytes(raw)), ALL)
    except TraceFileError as refused:
        assert "\n" not in str(refused)  # noqa: PT017 - most changes are refused
    else:
        warned = any(f.quality.warnings for f in found)
        assert warned or sum(f.samples.height for f in found) == 3 + 7
