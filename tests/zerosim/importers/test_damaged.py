"""Siblings of the files that broke other tools: cut or damaged at any byte, in any encoding."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest

from zerosim.analysis.summary import summarize
from zerosim.errors import TraceFileError
from zerosim.importers import read
from zerosim.importers.choice import Choice
from zerosim.trace import Trace

BASE = (Path(__file__).parents[2] / "golden" / "quirks" / "00_base.json").read_bytes()
EVENT = b'{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 1, "dur": 1}'
US = 1000
STEPS = [(5, 400 * US, 500 * US, 300 * US), (6, 400 * US, 500 * US, 300 * US)]


def steps(trace: Trace) -> list[tuple[int | None, ...]]:
    (rank,) = summarize(trace)["ranks"]
    return [tuple(entry.values()) for entry in rank["by_step"]]


@pytest.fixture
def sibling(tmp_path: Path) -> Any:
    """Reads a variant of the reference file."""

    def made(raw: bytes, choice: Choice | None = None) -> Trace:
        (tmp_path / "sibling.json").write_bytes(raw)
        return read([tmp_path / "sibling.json"], choice=choice or Choice())

    return made


@pytest.mark.parametrize("share", range(1, 40))
def test_a_file_cut_anywhere_is_refused_and_salvage_says_what_is_lost(
    sibling: Any, share: int
) -> None:
    cut = BASE.rstrip()[: len(BASE.rstrip()) * share // 40]
    with pytest.raises(TraceFileError, match=r"ends inside an event at byte|not JSON|no JSON"):
        sibling(cut)
    try:
        trace = sibling(cut, Choice(salvage=True))
    except TraceFileError as refusal:
        assert b'"traceEvents": [' not in cut or "JSON" in str(refusal)  # noqa: PT017 - either is right
    else:
        assert trace.meta.quality.lost == 1
        assert trace.meta.quality.events == cut.count(b'"ph":') - (cut[-1:] != b"}")


@pytest.mark.parametrize("share", range(1, 10))
def test_a_gzip_cut_anywhere_is_named(sibling: Any, share: int) -> None:
    zipped = gzip.compress(BASE)
    with pytest.raises(TraceFileError, match=r"truncated gzip|damaged gzip"):
        sibling(zipped[: len(zipped) * share // 10])


@pytest.mark.parametrize(
    ("fault", "repaired", "skipped"),
    [
        (rb'{"ph": "X", "name": "C:\Users\x\new"}', 1, 0),
        (rb'{"ph": "X", "name": "\\server\share\q"}', 1, 0),
        (b'{"ph": "X", "name": "a", "args": {"b": -nan}}', 1, 0),
        (b'{"ph": "X", "name": "a", "args": {"b": [Infinity, 1]}}', 1, 0),
        (b'{"ph": "X", "name": "a", "args": {"b": undefined}}', 1, 0),
        (b'{"ph": "X", "name": "a", "args": {"b": 0xdeadbeef}}', 1, 0),
        (b'{"ph": "X", "name": "a\x00\x1f"}', 1, 0),
        (b'{"ph": "X", "name": "\xff\xfe"}', 1, 0),
        (b'{"ph": "X", "name": "a", "args": {"b": 1,},}', 1, 0),
        (b'{"ph": "X", "name": "he said "no""}', 0, 1),
        (b'{"ph": "X", "name": }', 0, 1),
    ],
)
def test_siblings_of_damaged_events(
    sibling: Any, fault: bytes, repaired: int, skipped: int
) -> None:
    head, tail = BASE.split(b'"traceEvents": [', 1)
    trace = sibling(head + b'"traceEvents": [' + EVENT + b", " + fault + b", " + tail)
    assert steps(trace) == STEPS
    quality = trace.meta.quality
    assert (quality.repaired, quality.skipped) == (repaired, skipped)
    begin = len(head) + len(b'"traceEvents": [' + EVENT + b", ")
    assert begin <= (quality.places[0].byte or 0) < begin + len(fault)


@pytest.mark.parametrize("lead", ["", "\u00e9\U0001f600", "\ufffd"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_places_are_bytes_whatever_the_encoding(sibling: Any, lead: str, encoding: str) -> None:
    text = f'{{"note": "{lead}", "traceEvents": [{{"ph": "X", "name": "a", "x": N/A}}, {{"ph": "X"}}]}}'
    found = sibling(text.encode(encoding)).meta.quality.places[-1]
    assert (
        text.encode(encoding)[found.byte or 0 :]
        .decode("utf-16-le" if encoding == "utf-16" else "utf-8")
        .startswith('{"ph": "X", "name": "a"')
    )


def test_commas_too_many_or_too_few_between_events_are_counted(sibling: Any) -> None:
    for between, repaired in ((b",", 0), (b",,", 1), (b" ", 1)):
        raw = b'{"traceEvents": [' + EVENT + between + EVENT + b"]}"
        assert sibling(raw).meta.quality.repaired == repaired
