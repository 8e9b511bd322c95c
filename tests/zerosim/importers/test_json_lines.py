"""A log's whole records are read, whatever stands between them; the rest is counted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from zerosim.errors import TraceFileError
from zerosim.importers.content import Content
from zerosim.importers.json_lines import Faults, read_records


def records(text: bytes) -> tuple[list[dict[str, Any]], Faults]:
    faults = Faults()
    return list(read_records(Content(Path("log"), text), faults)), faults


@pytest.mark.parametrize(
    "text",
    [
        b'{"a": 1}\n{"a": 2}\n',
        b'\xef\xbb\xbf{"a": 1}\r\n\r\n{"a": 2}',
        b'[\n{"a": 1},\n{"a": 2},\n',
        b'[{"a": 1}, {"a": 2}]',
        b'{"a": 1}{"a": 2}',
        b'{"a":\n 1}\n{\n"a": 2\n}\n',
        b'[{"a": 1},\n{"a": 2}\n]\n',
    ],
)
def test_two_records_are_two_however_they_are_laid_out(text: bytes) -> None:
    found, faults = records(text)
    assert found == [{"a": 1}, {"a": 2}]
    assert (faults.records, faults.skipped, faults.lost) == (2, 0, 0)


@pytest.mark.parametrize("cut", [1, 5, 9, 12])
def test_a_cut_end_is_lost_and_said_with_its_byte(cut: int) -> None:
    found, faults = records(b'{"a": 1}\n' + b'{"a": "b", "c": 2}'[:cut])
    assert found == [{"a": 1}]
    assert faults.lost == 1
    assert faults.places[0].byte == 9
    assert "cut off" in faults.quality(Content(Path("log"), b""), ()).warnings[0]


def test_a_record_of_several_lines_that_is_cut_is_one_loss() -> None:
    found, faults = records(b'{"a": 1}\n{\n"a": 1,\n"b": {"c')
    assert found == [{"a": 1}]
    assert (faults.skipped, faults.lost) == (0, 1)


def test_a_torn_record_is_left_out_and_the_next_one_read() -> None:
    found, faults = records(b'{"a": 1}\n{"a": {"id": "0xa\n{"a": 3}\n')
    assert found == [{"a": 1}, {"a": 3}]
    assert faults.skipped == 1
    assert faults.places[0].byte == 9


def test_bare_words_and_hexadecimal_are_mended() -> None:
    found, faults = records(b'{"algo": RING, "id": 0xff, "x": nan, "ok": true, "s": "a, B"}\n')
    assert found == [{"algo": "RING", "id": 255, "x": None, "ok": True, "s": "a, B"}]
    assert faults.repaired == 1


def test_numbers_are_exact() -> None:
    found, _ = records(b'{"ts": 9270729183218.514, "id": 18446744073709551615}')
    assert str(found[0]["ts"]) == "9270729183218.514"
    assert found[0]["id"] == 18446744073709551615


def test_depth_is_refused() -> None:
    with pytest.raises(TraceFileError, match="nested too deeply"):
        records(b'{"a":' * 1_000_000)


def test_a_file_that_is_broken_everywhere_is_refused() -> None:
    with pytest.raises(TraceFileError, match="over 10000 broken records"):
        records(b'{"a": "\n' * 20_000)
