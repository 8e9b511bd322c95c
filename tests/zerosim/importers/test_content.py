"""Files are read whole within a limit, whatever they are called."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from zerosim.errors import TraceFileError
from zerosim.importers.content import read_content


def test_a_plain_file_is_read_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(b'{"a": 1}')
    assert read_content(path).raw == b'{"a": 1}'
    assert read_content(path).warnings == ()


def test_gzip_is_told_by_its_magic_bytes_not_by_its_name(tmp_path: Path) -> None:
    zipped, plain = tmp_path / "a.json", tmp_path / "b.json.gz"
    zipped.write_bytes(gzip.compress(b"[1]"))
    plain.write_bytes(b"[2]")
    assert read_content(zipped).raw == b"[1]"
    assert read_content(plain).raw == b"[2]"


def test_members_of_a_concatenated_gzip_are_one_file(tmp_path: Path) -> None:
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(b"[1,") + gzip.compress(b"2]"))
    assert read_content(path).raw == b"[1,2]"


def test_zeros_after_a_gzip_are_padding(tmp_path: Path) -> None:
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(b"[1]") + b"\0" * 512)
    assert read_content(path).raw == b"[1]"


def test_other_bytes_after_a_gzip_are_ignored_aloud(tmp_path: Path) -> None:
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(b"[1]") + b"rubbish")
    content = read_content(path)
    assert content.raw == b"[1]"
    assert content.warnings == ("'a.gz' has bytes after its gzip end: ignored",)


def test_a_truncated_gzip_is_named_as_one(tmp_path: Path) -> None:
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(b"x" * 10_000 + bytes(range(256)) * 9)[:-20])
    with pytest.raises(TraceFileError, match="truncated gzip file: copy or export it again"):
        read_content(path)


def test_a_damaged_gzip_is_named_as_one(tmp_path: Path) -> None:
    path = tmp_path / "a.gz"
    zipped = bytearray(gzip.compress(bytes(range(256)) * 99))
    zipped[-8:-4] = b"\0\0\0\0"
    path.write_bytes(bytes(zipped))
    with pytest.raises(TraceFileError, match="damaged gzip file"):
        read_content(path)


def test_a_gzip_bomb_stops_at_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress(b"\0" * 2**20))
    with pytest.raises(TraceFileError, match="unfolds to more than 65536 bytes"):
        read_content(path, limit=65536)


def test_a_gzip_that_unfolds_like_a_bomb_stops_long_before_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress(b" " * 2**27))
    with pytest.raises(TraceFileError, match="unfolds to more than 67108864 bytes"):
        read_content(path)
    path.write_bytes(gzip.compress(b" " * 2**26))
    assert len(read_content(path).raw) == 2**26


@pytest.mark.parametrize("name", ["/dev/zero", "/dev/null", "pipe", "."])
def test_what_is_no_file_is_refused_at_once(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(TraceFileError, match="is not a file: give trace files"):
        read_content(tmp_path / name)


def test_a_plain_file_over_the_limit_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "big.json"
    path.write_bytes(b" " * 100)
    with pytest.raises(TraceFileError, match="holds more than 99 bytes"):
        read_content(path, limit=99)
    assert len(read_content(path, limit=100).raw) == 100


def test_a_missing_file_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(TraceFileError, match=r"cannot read '.*gone.json': No such file"):
        read_content(tmp_path / "gone.json")
