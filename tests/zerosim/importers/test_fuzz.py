"""Damaged files of every format: a trace or a sentence, soon, and what was lost is said.

`make fuzz` tries 20,000 files a format (ZEROSIM_FUZZ says how many), at random; the tests 500, always
the same. A format is tried as soon as it stands in the registry: a file of it has to lie in `seeds`,
and those among the shared traces are damaged, too.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from zerosim.errors import TraceFileError
from zerosim.importers import IMPORTERS, content, pickle_stretches, read
from zerosim.importers.choice import ALL, Choice
from zerosim.importers.content import SQLITE, read_content
from zerosim.importers.kineto import reading, stream
from zerosim.trace import Trace

FEW: Final = 500
FILES: Final = int(os.environ.get("ZEROSIM_FUZZ", str(FEW)))
SECONDS: Final = 20
BIG: Final = 2**19
SEEDS: Final = Path(__file__).parent / "seeds"
SHARED: Final = Path(__file__).parents[4] / "shared" / "traces"
CHOICES: Final = (ALL, Choice(salvage=True), Choice(strict=True))
IN_PIECES: Final = [n for n in IMPORTERS if IMPORTERS[n].most is None and n != "nsys"]
"""Databases are read where they lie anyway."""
SCALE: Final = 2**16
TOKENS: Final = (
    *(b'"', b"{", b"}", b"[", b"]", b",", b":", b"\\", b"\n", b"\0", b"\xff", b"\xef\xbb\xbf"),
    *(b"NaN", b"N/A", b"null", b"-1", b"0", b"1e999", b"9" * 30, b"0x7f", b"1.5", b"true"),
    *(b'"', b"\\ud800", b"\\", b'","', b"[" * 2000, b'{"a":' * 2000, b"</script>", b"\x80\x04"),
    *(b"}, {", b'"args": {', b'"traceEvents": [', b"\x1f\x8b", b"PK\x03\x04", b"(" * 1000),
)
NUMBER: Final = re.compile(rb"-?\d+(?:\.\d+)?")


@dataclass(frozen=True, slots=True)
class Seed:
    """A file as it should be, and the trace that it gives."""

    path: Path
    raw: bytes = field(repr=False)
    trace: Trace = field(repr=False)


def cut(raw: bytes, start: int, _: int, __: bytes) -> bytes:
    """The file ends at `start`."""
    return raw[:start]


def drop(raw: bytes, start: int, end: int, _: bytes) -> bytes:
    """A part is missing."""
    return raw[:start] + raw[end:]


def repeat(raw: bytes, start: int, end: int, _: bytes) -> bytes:
    """A part stands there twice."""
    return raw[:end] + raw[start:]


def insert(raw: bytes, start: int, _: int, token: bytes) -> bytes:
    """Something is written between."""
    return raw[:start] + token + raw[start:]


def overwrite(raw: bytes, start: int, _: int, token: bytes) -> bytes:
    """Something is written over."""
    return raw[:start] + token + raw[start + len(token) :]


def move(raw: bytes, start: int, end: int, _: bytes) -> bytes:
    """A part stands at the end."""
    return raw[:start] + raw[end:] + raw[start:end]


def renumber(raw: bytes, start: int, _: int, token: bytes) -> bytes:
    """A number is another word."""
    return raw[:start] + NUMBER.sub(token.replace(b"\\", b"\\\\"), raw[start:], count=1)


MUTATIONS: Final = st.tuples(
    st.sampled_from((cut, drop, repeat, insert, overwrite, move, renumber)),
    st.integers(0, SCALE),
    st.integers(0, SCALE),
    st.one_of(st.sampled_from(TOKENS), st.binary(min_size=1, max_size=2)),
)


def mutated(raw: bytes, mutations: list[Any]) -> bytes:
    for change, one, other, token in mutations:
        start, end = sorted(len(raw) * place // SCALE for place in (one, other))
        # Near ends make most files differ in one event; far ones make them other files.
        end = min(end, start + 400) if token[0] % 2 else end
        raw = change(raw, start, end, token)
    return raw


@contextmanager
def ended_soon() -> Iterator[None]:
    """Raise TimeoutError in what takes longer than SECONDS."""

    def late(*_: object) -> None:
        raise TimeoutError(f"an import took more than {SECONDS} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def find_seeds() -> dict[str, list[Seed]]:
    """Files of each format that read well: those beside the tests, and the smallest shared ones."""
    found: dict[str, list[tuple[Path, bytes]]] = {name: [] for name in IMPORTERS}
    for folder in (SEEDS, SHARED):
        for path in sorted(folder.rglob("*"), key=lambda p: (p.stat().st_size, p)):
            if path.is_file() and path.stat().st_size < BIG:
                raw = whole(path)
                name = next((n for n in IMPORTERS if IMPORTERS[n].sniff(raw)), None)
                if name and len(found[name]) < 6 and len(raw) < BIG:
                    found[name].append((path, raw))
    return {name: [s for p, r in files if (s := seed(p, r))] for name, files in found.items()}


def whole(path: Path) -> bytes:
    try:
        found = read_content(path)
    except TraceFileError:
        return b""
    if found.raw.startswith(SQLITE):
        return path.read_bytes() if path.read_bytes().startswith(SQLITE) else b""
    return found.raw


def seed(path: Path, raw: bytes) -> Seed | None:
    try:
        trace = read([path])
    except TraceFileError:
        return None
    return Seed(path, raw, trace) if trace.spans.height or trace.samples.height else None


@pytest.fixture(scope="module")
def seeds() -> dict[str, list[Seed]]:
    return find_seeds()


def check(seed: Seed, raw: bytes, choice: Choice, path: Path) -> None:
    path.write_bytes(raw)
    try:
        with ended_soon():
            trace = read([path], choice=choice)
    except TraceFileError as refusal:
        assert path.name in str(refusal)  # noqa: PT017 - a refusal is as right as a trace
        assert "\n" not in str(refusal)  # noqa: PT017 - same
        return
    assert (trace.spans["end_ns"] >= trace.spans["start_ns"]).all()
    assert trace.spans["collective"].drop_nulls().ge(0).all()
    quality = trace.meta.quality
    if choice.strict:
        assert (quality.repaired, quality.skipped, quality.lost) == (0, 0, 0)
    if trace.spans.height < seed.trace.spans.height:
        assert quality != seed.trace.meta.quality, "spans were lost without a word"
    if trace.samples.height < seed.trace.samples.height:
        assert quality != seed.trace.meta.quality, "samples were lost without a word"


def try_files(mine: list[Seed], folder: Path, files: int = FILES) -> None:
    @settings(
        max_examples=files,
        derandomize=FILES == FEW,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(
        st.sampled_from(mine),
        st.lists(MUTATIONS, min_size=1, max_size=3),
        st.sampled_from(CHOICES),
    )
    def tried(chosen: Seed, mutations: list[Any], choice: Choice) -> None:
        check(chosen, mutated(chosen.raw, mutations), choice, folder / chosen.path.name)

    tried()


def test_every_format_has_a_file_to_damage_beside_the_tests() -> None:
    raws = [whole(path) for path in SEEDS.iterdir()]
    assert [n for n in IMPORTERS if not any(IMPORTERS[n].sniff(raw) for raw in raws)] == []


@pytest.mark.parametrize("format_", list(IMPORTERS))
def test_a_damaged_file_is_a_trace_or_a_sentence_and_what_is_lost_is_said(
    format_: str, seeds: dict[str, list[Seed]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pickle_stretches, "_STRETCH", 2)  # small files go the fast way, too
    try_files(seeds[format_], tmp_path)


@pytest.mark.parametrize("format_", IN_PIECES)
def test_so_is_one_that_is_read_in_pieces(
    format_: str, seeds: dict[str, list[Seed]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(content, "HELD_BYTES", 0)
    monkeypatch.setattr(reading, "HELD_BYTES", 0)
    monkeypatch.setattr(reading, "WHOLE_BYTES", 0)
    monkeypatch.setattr(stream, "BATCH_BYTES", 2**10)
    monkeypatch.setattr(stream, "_TAIL_BYTES", 2**10)
    try_files(seeds[format_], tmp_path, FEW // 5 if FILES == FEW else FILES)
