"""A file that is too big to be held is read where it lies, and says what it says when it is held."""

from __future__ import annotations

import gzip
import io
import re
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zerosim.errors import TraceFileError
from zerosim.importers import IMPORTERS, content, read, stored
from zerosim.importers.choice import Choice
from zerosim.importers.content import read_content
from zerosim.importers.kineto import reading, stream
from zerosim.importers.stored import Stored, matches, pieces

GOLDEN = sorted((Path(__file__).parents[2] / "golden" / "gloo_ddp").iterdir())
SEEDS = Path(__file__).parent / "seeds"
STREAMED = [GOLDEN[0], *(SEEDS / name for name in ("exported.json", "48_inspector.jsonl"))]


@pytest.fixture
def nothing_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any file is big, and read in small pieces."""
    monkeypatch.setattr(content, "HELD_BYTES", 0)
    monkeypatch.setattr(reading, "HELD_BYTES", 0)
    monkeypatch.setattr(reading, "WHOLE_BYTES", 0)
    monkeypatch.setattr(stored, "_CHUNK", 1000)
    monkeypatch.setattr(stream, "BATCH_BYTES", 2**12)
    monkeypatch.setattr(stream, "_TAIL_BYTES", 2**12)


@pytest.fixture
def few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored, "_CHUNK", 7)
    monkeypatch.setattr(stored, "_OVERLAP", 4)


def kept(raw: bytes) -> Stored:
    return Stored(Path("big"), io.BytesIO(raw), len(raw))


@pytest.mark.usefixtures("few_at_a_time")
@given(st.text("ab", max_size=40), st.lists(st.tuples(st.integers(0, 45), st.integers(0, 45))))
def test_it_answers_as_bytes_do(text: str, asked: list[tuple[int, int]]) -> None:
    raw = text.encode()
    big = kept(raw)
    assert len(big) == len(raw)
    assert b"".join(pieces(big)) == raw
    for start, end in asked:
        assert big[start:end] == raw[start:end]
        assert big.find(b"ab", start, end) == raw.find(b"ab", start, end)
        assert big.find(b"aba", start) == raw.find(b"aba", start)


@pytest.mark.usefixtures("few_at_a_time")
@given(st.text("ab", max_size=40))
def test_matches_are_found_across_the_ends_of_pieces(text: str) -> None:
    raw = text.encode()
    pattern = re.compile(b"ba{1,2}")
    assert list(matches(kept(raw), pattern)) == [m.start() for m in pattern.finditer(raw)]


def test_a_file_that_becomes_shorter_meanwhile_is_refused() -> None:
    big = Stored(Path("big"), io.BytesIO(b"abc"), 5)
    with pytest.raises(TraceFileError, match="'big' has become shorter while it was read: wait"):
        big[0:5]


@pytest.mark.parametrize("path", STREAMED, ids=lambda p: p.name)
@pytest.mark.parametrize("how", ["plain", "gzip", "zip", "gzip in a zip"])
def test_a_big_file_gives_the_same_trace(
    path: Path, how: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    file = tmp_path / path.name.removesuffix(".gz")
    if how == "plain":
        file.write_bytes(raw)
    elif how == "gzip":
        file.write_bytes(gzip.compress(raw))
    else:
        inner = raw if how == "zip" else gzip.compress(raw)
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(file.name, inner)
    held = read([file])
    request.getfixturevalue("nothing_held")
    big = read([file])
    assert big.spans.equals(held.spans)
    assert big.samples.equals(held.samples)
    assert big.meta == held.meta


@pytest.mark.usefixtures("nothing_held")
def test_a_big_file_of_a_format_that_needs_all_of_it_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "et.json"
    path.write_bytes((SEEDS / "execution_trace.json").read_bytes())
    read([path])
    small = replace(IMPORTERS["execution-trace"], most=1000)
    monkeypatch.setitem(IMPORTERS.entries, "execution-trace", small)
    with pytest.raises(TraceFileError, match=r"of its format no more than .* record fewer steps"):
        read([path])


@pytest.mark.usefixtures("nothing_held")
def test_a_big_file_of_unknown_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(b'{"a": 1}' * 1000)
    with pytest.raises(TraceFileError, match="known formats are"):
        read([path])


@pytest.mark.usefixtures("nothing_held")
def test_a_big_file_damaged_at_one_place_is_mended_there(tmp_path: Path) -> None:
    raw = gzip.decompress(GOLDEN[0].read_bytes())
    at = raw.index(b'"name": "', len(raw) // 2) + 9
    path = tmp_path / "rank0.json"
    path.write_bytes(raw[:at] + b'say "hi" ' + raw[at:])
    trace = read([path])
    [place] = trace.meta.quality.places
    assert raw.rindex(b"{", 0, at) == place.byte
    with pytest.raises(TraceFileError, match=f"the first in 'rank0.json' at byte {place.byte}"):
        read([path], choice=Choice(strict=True))


@pytest.mark.usefixtures("nothing_held")
def test_a_big_file_that_cannot_be_mended_in_pieces_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "rank0.json"
    path.write_bytes(gzip.decompress(GOLDEN[0].read_bytes()).decode().encode("utf-16"))
    with pytest.raises(TraceFileError, match="too big to be mended"):
        read([path])


def test_a_file_that_does_not_fit_the_disk_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Full(io.BytesIO):
        def write(self, _: object) -> int:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(content, "HELD_BYTES", 0)
    monkeypatch.setattr("tempfile.TemporaryFile", Full)
    path = tmp_path / "a.json.gz"
    path.write_bytes(gzip.compress(b"[1]"))
    with pytest.raises(TraceFileError, match=r"No space left on device.*or name another place"):
        read_content(path)


def test_who_watches_a_big_file_hears_how_far_the_reading_is(tmp_path: Path) -> None:
    path = tmp_path / "big"
    with path.open("wb") as file:
        file.truncate(stored._NEAR * 4)
    big = Stored(path, path.open("rb"), stored._NEAR * 4)
    heard: list[float] = []
    big.watch = heard.append
    for at in (0, stored._NEAR * 4 - 10, stored._NEAR // 2, stored._NEAR, stored._NEAR * 2):
        big[at : at + 10]
    assert heard == [0, 0.125, 0.25, 0.5]  # the look at the end told nothing
