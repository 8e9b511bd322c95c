"""Flight recorder dumps of every kind: pickle and JSON alike, real ones, damaged and hostile ones."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zerosim.errors import TraceFileError
from zerosim.importers import IMPORTERS, flight, read
from zerosim.importers.choice import ALL, Choice
from zerosim.importers.content import Content
from zerosim.importers.flight import header
from zerosim.importers.recording import Recording
from zerosim.trace import Group, Trace

CREATED = 1_758_610_505_592_849_034


def dump(n: int = 3, **changes: Any) -> dict[str, Any]:
    """All-gathers 1 to `n` of rank 0 of 2, the last one not ended."""
    entries = [
        {
            "record_id": i,
            "pg_id": 0,
            "process_group": ("0", "default_pg"),
            "collective_seq_id": i + 1,
            "p2p_seq_id": 0,
            "profiling_name": "nccl:_all_gather_base",
            "time_created_ns": CREATED + i,
            "input_sizes": [(1024,)],
            "input_dtypes": ["BFloat16"],
            "output_sizes": [(2048,)],
            "output_dtypes": ["BFloat16"],
            "state": "completed" if i < n - 1 else "scheduled",
            "retired": i < n - 1,
            "is_p2p": False,
        }
        for i in range(n)
    ]
    return {
        "version": "2.9",
        "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}},
        "pg_status": {"0": {"last_completed_collective": n - 1}},
        "entries": entries,
        **changes,
    }


def recording(document: Any, name: str = "dump_0", choice: Choice = ALL) -> Recording:
    content = Content(Path(name), pickle.dumps(document, 2))
    return flight.parse(content, choice)[0]


def rows(trace: Trace) -> list[dict[str, Any]]:
    columns = ("rank", "kind", "group", "elements", "nbytes", "dtype", "issued_ns", "flags")
    return trace.spans.select(columns).to_dicts()


def test_a_dump_becomes_a_row_a_call() -> None:
    spans = recording(dump()).spans
    assert spans["kind"].to_list() == ["all_gather"] * 3
    assert spans["issued_ns"].to_list() == [CREATED, CREATED + 1, CREATED + 2]
    assert spans["sequence"].to_list() == [1, 2, 3]
    assert spans["elements"].to_list() == [2048] * 3
    assert spans["nbytes"].to_list() == [4096] * 3
    assert spans["flags"].to_list() == [1, 1, 3]  # untimed; the last one unfinished too


def test_a_dump_says_what_it_cannot_know() -> None:
    quality = recording(dump()).quality
    assert quality.events == 3
    assert quality.warnings == ("'dump_0' has 1 call that never ended",)
    assert [text.split(":")[0] for text in quality.unknown] == [
        "when collectives began and ended",
        "how far the clocks of the hosts are apart",
        "what was computed, and in which step",
        "the rank",
    ]


def test_pickle_and_json_of_one_dump_are_one_table(tmp_path: Path) -> None:
    (tmp_path / "a_0").write_bytes(pickle.dumps(dump(), 2))
    (tmp_path / "b_0.json").write_text(json.dumps(dump()))
    assert rows(read([tmp_path / "a_0"])) == rows(read([tmp_path / "b_0.json"]))


def test_ranks_are_tied_by_number_though_their_rings_begin_elsewhere(tmp_path: Path) -> None:
    for rank, kept in ((0, slice(None)), (1, slice(2, None))):
        whole = dump(5)
        whole["entries"] = whole["entries"][kept]
        (tmp_path / f"fr_{rank}").write_bytes(pickle.dumps(whole, 2))
    trace = read([tmp_path])
    assert trace.spans["rank"].to_list() == [0] * 5 + [1] * 3
    assert trace.spans["collective"].to_list() == [0, 1, 2, 3, 4, 2, 3, 4]
    assert "'fr_1' lacks 2 earlier calls: overwritten, or ended before the dump" in (
        trace.meta.quality.warnings
    )


@pytest.mark.parametrize(
    ("name", "ranks", "expected"),
    [
        ("_dump_1", (0, 1), 1),
        ("fr_rank_1.json", (0, 1), 1),
        ("nccl_trace_rank_1.pickle.gz", (0, 1), 1),
        ("20250923-1", (0, 1), 1),
        ("dump", (0, 1), None),
        ("dump_7", (0, 1), None),
        ("dump_7", (3,), 3),
        ("dump_7", None, 7),
        ("dump_123456789012", None, None),
        ("dump_99999999", None, None),
    ],
)
def test_the_rank_is_at_the_end_of_the_name_unless_the_groups_deny_it(
    name: str, ranks: tuple[int, ...] | None, expected: int | None
) -> None:
    groups = [Group("0", 2, ranks)] if ranks else []
    assert header.rank_of(name, groups) == expected


def test_whoever_gives_the_rank_is_believed(tmp_path: Path) -> None:
    (tmp_path / "dump_0").write_bytes(pickle.dumps(dump(), 2))
    assert read([tmp_path / "dump_0"], choice=Choice(rank=1)).ranks == (1,)


@pytest.mark.parametrize(
    "ranks", ["", "[0, 0]", "[-1]", "[1e9]", f"[{2**31}]", "[" * 9999, None, 5]
)
def test_groups_whose_ranks_are_none_are_left_out(ranks: object) -> None:
    assert recording(dump(pg_config={"0": {"ranks": ranks}})).groups == ()


def test_the_only_group_of_gloo_gets_the_name_of_its_calls() -> None:
    found = recording(dump(pg_config={"": {"name": "", "desc": "", "ranks": "[0, 1, 2, 3]"}}))
    assert found.groups == (Group("0", 4, (0, 1, 2, 3)),)


@pytest.mark.parametrize(
    ("changes", "n_rows", "says"),
    [
        ({"entries": []}, 0, "has no calls"),
        ({"entries": [None, 5, {}]}, 0, "has 3 entries without a name or a time: left out"),
        ({"version": None}, 3, "is of version None, not 2: read as if it were"),
        ({"version": "{0.__class__} {}"}, 3, "is of version {0.__class__}"),
        ({"pg_status": None}, 3, "has 1 call that never ended"),
        (
            {"pg_status": {"0": None, "1": {"last_completed_collective": "-1"}}},
            3,
            "has 1 call that never",
        ),
        ({"pg_config": []}, 3, "has 1 call that never ended"),
        ({"pg_config": {"0": 5}}, 3, "has 1 call that never ended"),
        ({"nccl_comm_state": {"x": []}}, 3, "has 1 call that never ended"),
    ],
)
def test_odd_dumps_load_and_say_so(changes: dict[str, Any], n_rows: int, says: str) -> None:
    found = recording(dump(**changes))
    assert found.spans.height == n_rows
    assert found.quality.events == len(changes.get("entries", [1, 2, 3]))
    assert any(text.startswith(f"'dump_0' {says}") for text in found.quality.warnings)


def test_entries_left_out_are_counted_and_named() -> None:
    quality = recording(dump(entries=[{}] * 30)).quality
    assert (quality.events, quality.skipped, len(quality.places)) == (30, 30, 20)
    assert quality.places[0].what == "entry 0 has no name or no time: left out"


@pytest.mark.parametrize("document", [[], "entries pg_config", {"entries": 5, "pg_config": {}}])
def test_what_is_no_dump_is_refused(document: Any) -> None:
    with pytest.raises(TraceFileError, match="has no list of entries"):
        recording(document)


def test_a_dump_with_shared_long_texts_takes_no_memory() -> None:
    long = "x" * 10**6
    entries = [{**e, "profiling_name": long, "input_dtypes": [long]} for e in dump(2000)["entries"]]
    found = recording(dump(entries=entries))
    assert found.spans["name"].cast(str).str.len_chars().max() == 256


def test_of_a_dump_that_is_cut_the_whole_calls_can_be_kept() -> None:
    whole = pickle.dumps(dump(5), 2)
    kept = set()
    for length in range(len(whole)):
        content = Content(Path("dump_0"), whole[:length])
        if flight.sniff(content.raw):
            with pytest.raises(TraceFileError, match="ends early"):
                flight.parse(content, ALL)
            try:
                (found,) = flight.parse(content, Choice(salvage=True))
            except TraceFileError:
                continue
            assert found.quality.lost == 1
            assert found.spans["issued_ns"].to_list() == [
                CREATED + i for i in range(found.spans.height)
            ]
            kept.add(found.spans.height)
    assert kept == {0, 1, 2, 3, 4, 5}
    (sound,) = flight.parse(Content(Path("dump_0"), whole), Choice(salvage=True))
    assert (sound.spans.height, sound.quality.lost) == (5, 0)


def test_html_in_a_name_stays_text() -> None:
    found = recording(dump(entries=[{**dump()["entries"][0], "profiling_name": "<script>"}]))
    assert found.spans["name"].to_list() == ["<script>"]


@given(place=st.integers(0, 900), byte=st.integers(0, 255))
def test_a_changed_byte_never_loses_a_call_silently(place: int, byte: int) -> None:
    raw = bytearray(pickle.dumps(dump(), 2))
    raw[place % len(raw)] = byte
    if not flight.sniff(bytes(raw)):
        return
    try:
        (found,) = flight.parse(Content(Path("dump_0"), bytes(raw)), ALL)
    except TraceFileError as refused:
        assert "\n" not in str(refused)  # noqa: PT017 - most changes are refused
    else:
        assert found.spans.height == 3 or found.quality != recording(dump()).quality


def test_a_dump_is_found_by_its_content() -> None:
    assert IMPORTERS["flight-recorder"].sniff(pickle.dumps(dump(), 2))
    assert IMPORTERS["flight-recorder"].sniff(json.dumps(dump()).encode())
    assert not IMPORTERS["flight-recorder"].sniff(pickle.dumps({"version": "2.9"}))
    assert not IMPORTERS["flight-recorder"].sniff(b'["pg_config", "entries"]')
    # A table about dumps has their keys, too.
    assert not IMPORTERS["flight-recorder"].sniff(b'{"dump_0": {"pg_config": {}, "entries": 20}}')
