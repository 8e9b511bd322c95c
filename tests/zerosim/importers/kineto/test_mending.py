"""A big damaged file, mended batch by batch, says what it says when it is read whole."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import orjson
import pytest

from zerosim.errors import TraceFileError
from zerosim.importers import kineto
from zerosim.importers.choice import Choice
from zerosim.importers.content import Content, read_content
from zerosim.importers.kineto import reading, stream
from zerosim.importers.recording import Recording

GOLDEN = sorted((Path(__file__).parents[3] / "golden" / "gloo_ddp").iterdir())
Change = Callable[[bytes], bytes]


@pytest.fixture(scope="module")
def raw() -> bytes:
    return read_content(GOLDEN[0]).raw


@pytest.fixture
def in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "WHOLE_BYTES", 0)
    monkeypatch.setattr(stream, "BATCH_BYTES", 2**13)
    monkeypatch.setattr(stream, "_TAIL_BYTES", 2**12)


def read(raw: bytes, *, salvage: bool = False) -> Recording:
    return kineto.parse(Content(Path("t.json"), raw), Choice(salvage=salvage))[0]


def middle(raw: bytes, what: bytes, share: float = 0.5) -> int:
    return raw.index(what, int(len(raw) * share))


def quoted(raw: bytes) -> bytes:
    at = middle(raw, b'"name": "') + 9
    return raw[:at] + b'say "hi" ' + raw[at:]


def windows_path(raw: bytes) -> bytes:
    at = middle(raw, b'"name": "') + 9
    return raw[:at] + rb"C:\Users\new " + raw[at:]


def nan(raw: bytes) -> bytes:
    at = middle(raw, b'"args": {') + 9
    return raw[:at] + b'"x": NaN, ' + raw[at:]


def latin(raw: bytes) -> bytes:
    at = middle(raw, b'"name": "') + 9
    return raw[:at] + b"\xe9\xe9" + raw[at:]


def comma(raw: bytes) -> bytes:
    at = middle(raw, b'"args": {') - 1
    return raw[:at] + b", " + raw[at:]


def unclosed(raw: bytes) -> bytes:
    return raw.rstrip().removesuffix(b"}")


@pytest.mark.usefixtures("in_batches")
@pytest.mark.parametrize("change", [quoted, windows_path, nan, latin, comma, unclosed])
def test_one_fault_is_mended_or_left_out_as_in_the_whole(
    raw: bytes, change: Change, monkeypatch: pytest.MonkeyPatch
) -> None:
    damaged = change(raw)
    batched = read(damaged)
    monkeypatch.setattr(reading, "WHOLE_BYTES", 2**30)
    whole = read(damaged)
    assert batched.spans.equals(whole.spans)
    assert batched.samples.equals(whole.samples)
    assert batched.quality == whole.quality
    assert (batched.quality.repaired, batched.quality.skipped) in ((1, 0), (0, 1))


@pytest.mark.usefixtures("in_batches")
def test_faults_of_several_batches_add_up(raw: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    damaged = quoted(raw)
    first = damaged.index(b'"name": "', 20_000) + 9
    damaged = damaged[:first] + b'"' + damaged[first:]
    batched = read(damaged)
    monkeypatch.setattr(reading, "WHOLE_BYTES", 2**30)
    whole = read(damaged)
    assert batched.spans.equals(whole.spans)
    assert batched.quality.places == whole.quality.places
    assert batched.quality.skipped == whole.quality.skipped == 2


@pytest.mark.usefixtures("in_batches")
@pytest.mark.parametrize("share", [0.3, 0.6, 0.95])
def test_a_cut_file_is_refused_with_its_byte_or_its_whole_events_are_kept(
    raw: bytes, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = raw.rindex(b"{\n", 0, middle(raw, b'"ts": ', share))
    damaged = raw[: middle(raw, b'"ts": ', share)]
    with pytest.raises(TraceFileError, match=f"ends inside an event at byte {where} "):
        read(damaged)
    batched = read(damaged, salvage=True)
    monkeypatch.setattr(reading, "WHOLE_BYTES", 2**30)
    whole = read(damaged, salvage=True)
    assert batched.spans.equals(whole.spans)
    assert batched.quality == whole.quality
    assert batched.quality.lost == 1


@pytest.mark.usefixtures("in_batches")
def test_a_list_that_closes_too_early_is_refused_not_cut_short(raw: bytes) -> None:
    at = middle(raw, b'{\n    "ph"')
    with pytest.raises(TraceFileError, match="is damaged JSON"):
        read(raw[:at] + b"], " + raw[at:])


@pytest.mark.usefixtures("in_batches")
def test_a_file_damaged_everywhere_is_read_whole() -> None:
    events = [
        {"ph": "X", "cat": "kernel", "name": f"k{i}", "ts": i + 1, "dur": 1, "pid": 0, "tid": 7}
        for i in range(2000)
    ]
    raw = orjson.dumps({"traceEvents": events}).replace(b'"dur":1', b'"dur":1,"x":NaN')
    found = read(raw)
    assert found.spans.height == 2000
    assert found.quality.repaired == 1


@pytest.mark.usefixtures("in_batches")
def test_times_of_19_digits_stay_exact_in_a_damaged_batch() -> None:
    kernel = b'{"ph": "X", "cat": "kernel", "name": "k", "ts": 1711964646123456.%03d, "dur": 1.5%b}'
    events = [kernel % (i, b', "x": NaN' if i == 300 else b"") for i in range(600)]
    spans = read(b"[%b]" % b",".join(events)).spans
    first = 1_711_964_646_123_456_000
    assert spans["start_ns"].to_list() == list(range(first, first + 600))
