"""A file read in batches says what its whole tree says, and nothing is read twice, lost, or guessed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zerosim.importers import kineto
from zerosim.importers.choice import ALL
from zerosim.importers.content import Content, read_content
from zerosim.importers.kineto import reading, stream
from zerosim.importers.kineto.stream import UnsoundError, read_batches

GOLDEN = sorted((Path(__file__).parents[3] / "golden" / "gloo_ddp").iterdir())


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches of one event, and a tail of some."""
    monkeypatch.setattr(stream, "BATCH_BYTES", 1)
    monkeypatch.setattr(stream, "_TAIL_BYTES", 300)


def events_of(raw: bytes) -> list[Any]:
    return [event for batch in read_batches(raw)[1] for event in batch]


@pytest.mark.usefixtures("small_batches")
@pytest.mark.parametrize("path", GOLDEN, ids=lambda p: p.name)
def test_a_real_file_gives_the_same_in_batches_and_whole(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = read_content(path)
    batched = kineto.parse(content, ALL)[0]

    def refuse(_raw: bytes, **_: bool) -> None:
        raise UnsoundError

    monkeypatch.setattr(reading, "read_batches", refuse)
    whole = kineto.parse(content, ALL)[0]
    assert batched.spans.equals(whole.spans)
    assert batched.samples.equals(whole.samples)
    assert (batched.rank, batched.world_size, batched.groups, batched.windows) == (
        whole.rank,
        whole.world_size,
        whole.groups,
        whole.windows,
    )
    assert batched.quality == whole.quality


@pytest.mark.usefixtures("small_batches")
@given(
    st.lists(
        st.recursive(
            st.dictionaries(st.sampled_from(["ph", "name", 'a"}, {"b']), st.text(max_size=5)),
            lambda inner: st.dictionaries(st.sampled_from(["args", "}, {"]), st.lists(inner)),
            max_leaves=8,
        ),
        max_size=30,
    ),
    st.lists(st.dictionaries(st.sampled_from(["name", "ph"]), st.text(), max_size=2), max_size=6),
    st.sampled_from([None, 2]),
)
def test_whatever_stands_in_events_and_behind_them_they_come_whole_or_not_at_all(
    events: list[Any], behind: list[Any], indent: int | None
) -> None:
    document = {"rank": 3, "traceEvents": events, "INFO": behind}
    raw = json.dumps(document, indent=indent).encode()
    try:
        header, batches = read_batches(raw)
        read = [event for batch in batches for event in batch]
    except UnsoundError:
        return
    assert read == events
    assert header == {"rank": 3, "INFO": behind}


@pytest.mark.usefixtures("small_batches")
def test_sound_events_are_never_refused_for_what_their_texts_say() -> None:
    events = [{"name": f'}}, {{"ph" {i}', "args": {"x": [{}, {}]}} for i in range(50)]
    assert events_of(orjson.dumps({"traceEvents": events})) == events
    assert events_of(orjson.dumps(events)) == events


@pytest.mark.usefixtures("small_batches")
def test_what_stands_before_and_behind_the_events_is_the_header() -> None:
    events = [{"ph": "X", "name": str(i)} for i in range(50)]
    header, _ = read_batches(orjson.dumps({"a": 1, "traceEvents": events, "b": [{"c": 2}]}))
    assert header == {"a": 1, "b": [{"c": 2}]}


def test_batches_end_where_events_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "BATCH_BYTES", 100)
    monkeypatch.setattr(stream, "_TAIL_BYTES", 50)
    events = [{"ph": "X", "name": "a" * 20} for _ in range(10)]
    sizes = [len(batch) for batch in read_batches(orjson.dumps(events))[1]]
    assert sizes == [3, 3, 3, 1]


@pytest.mark.usefixtures("small_batches")
@pytest.mark.parametrize(
    "change",
    [
        lambda raw: raw[:-200],
        lambda raw: raw.replace(b'"7"', b'"7'),
        lambda raw: raw.replace(b'{"ph":"X","name":"7"},', b'{"ph":"X","name":"7"}'),
        lambda raw: raw.replace(b'{"ph":"X","name":"7"}', b'{"ph":"X","name":"7",}'),
        lambda raw: raw.replace(b'{"ph":"X","name":"7"}', b'{"ph":"X","name":N/A}'),
        lambda raw: raw.replace(b'"7"', b'"\xff"'),
        lambda raw: b"\xef\xbb\xbf" + raw,
        lambda raw: raw.replace(b'"traceEvents":', b'"traceEvents":[],"traceEvents":'),
        lambda raw: raw.replace(b'"traceEvents"', b'"events"'),
        lambda raw: b'{"inner":%b}' % raw,
        lambda raw: raw + b"{}",
    ],
)
def test_what_is_not_sound_is_left_to_those_who_mend(change: Callable[[bytes], bytes]) -> None:
    events = [{"ph": "X", "name": str(i)} for i in range(50)]
    raw = change(orjson.dumps({"traceEvents": events, "rank": 1}))
    with pytest.raises(UnsoundError):
        events_of(raw)


def test_times_of_19_digits_are_read_to_the_nanosecond_in_batches() -> None:
    raw = (
        b'[{"ph": "X", "cat": "kernel", "name": "k", "ts": 1711964646123456.789, "dur": 1.5},'
        b' {"ph": "X", "cat": "kernel", "name": "k", "ts": 1711964646123457, "dur": 2}]'
    )
    assert read_batches(raw, exactly=True)[1].__next__()[0]["ts"] == "1711964646123456.789"
    spans = kineto.parse(Content(Path("t.json"), raw), ALL)[0].spans
    assert spans["start_ns"].to_list() == [1_711_964_646_123_456_789, 1_711_964_646_123_457_000]
    assert spans["end_ns"].to_list() == [1_711_964_646_123_458_289, 1_711_964_646_123_459_000]
