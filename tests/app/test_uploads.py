"""Uploads: what is announced comes in order and whole, is kept under no name of a stranger, and goes."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zerosim.errors import InputError
from zerosim_app.uploads import Announced, Uploads, placed

ROOT = Path(__file__).parents[2]


@pytest.fixture(name="uploads")
def _uploads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Uploads:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return Uploads(max_bytes=100, max_all=150)


def kept(tmp_path: Path) -> list[Path]:
    return sorted(path for path in tmp_path.rglob("*") if path.is_file())


def test_slices_become_the_file_that_was_sent(uploads: Uploads, tmp_path: Path) -> None:
    one = uploads.begin([Announced("a.json", 6), Announced("b.json", 0)])
    assert uploads.append(one, 0, 0, io.BytesIO(b"abcd"), 4) == 4
    assert uploads.append(one, 0, 4, io.BytesIO(b"ef"), 2) == 6
    with uploads.taken(one) as upload:
        assert [path.read_bytes() for path in upload.paths] == [b"abcdef", b""]
        assert [path.name for path in upload.paths] == ["a.json", "b.json"]
    assert kept(tmp_path) == []


@pytest.mark.parametrize("start", [0, 2, 5, 10**12, -1])
def test_a_slice_out_of_order_changes_nothing(uploads: Uploads, start: int) -> None:
    one = uploads.begin([Announced("a.json", 10)])
    uploads.append(one, 0, 0, io.BytesIO(b"abcd"), 4)
    assert uploads.append(one, 0, start, io.BytesIO(b"xyz"), 3) == 4
    assert uploads.append(one, 0, 4, io.BytesIO(b"efghij"), 6) == 10
    with uploads.taken(one) as upload:
        assert upload.paths[0].read_bytes() == b"abcdefghij"


def test_more_than_was_announced_is_refused(uploads: Uploads, tmp_path: Path) -> None:
    one = uploads.begin([Announced("a.json", 3)])
    with pytest.raises(InputError, match=r"'a\.json' is longer than the 3 bytes .* still"):
        uploads.append(one, 0, 0, io.BytesIO(b"abcd"), 4)
    assert [path.stat().st_size for path in kept(tmp_path)] == [0]


def test_a_slice_that_breaks_off_can_be_sent_again(uploads: Uploads) -> None:
    one = uploads.begin([Announced("a.json", 5)])
    with pytest.raises(InputError, match=r"a slice of 'a\.json' broke off"):
        uploads.append(one, 0, 0, io.BytesIO(b"xyz"), 5)
    assert uploads.append(one, 0, 0, io.BytesIO(b"ab"), 2) == 2
    assert uploads.append(one, 0, 2, io.BytesIO(b"cde"), 3) == 5
    with uploads.taken(one) as upload:
        assert upload.paths[0].read_bytes() == b"abcde"


@pytest.mark.parametrize("index", [1, -1, 10**6])
def test_nothing_comes_for_what_nobody_announced(uploads: Uploads, index: int) -> None:
    one = uploads.begin([Announced("a.json", 3)])
    with pytest.raises(KeyError):
        uploads.append(one, index, 0, io.BytesIO(b"abc"), 3)
    with pytest.raises(KeyError):
        uploads.append("../" + one, 0, 0, io.BytesIO(b"abc"), 3)


def test_what_did_not_come_whole_is_not_read(uploads: Uploads, tmp_path: Path) -> None:
    one = uploads.begin([Announced("a.json", 3)])
    uploads.append(one, 0, 0, io.BytesIO(b"ab"), 2)
    with pytest.raises(InputError, match=r"of 'a\.json' 2 of 3 bytes came"), uploads.taken(one):
        pass
    assert kept(tmp_path) == []
    with pytest.raises(InputError, match="no longer knows these files"), uploads.taken(one):
        pass


@pytest.mark.parametrize(
    ("files", "sentence"),
    [
        ([], "nothing was dropped"),
        ([Announced("big.json", 101)], "'big.json' has 101 B, over 100 B: record fewer steps"),
        ([Announced("a", 80), Announced("b", 80)], "the files have 160 B, over 150 B"),
        ([Announced("a", 0)] * 4097, "4,097 files are over 4,096"),
    ],
)
def test_what_is_too_much_is_refused_before_a_byte_of_it_comes(
    uploads: Uploads, tmp_path: Path, files: list[Announced], sentence: str
) -> None:
    with pytest.raises(InputError, match=sentence):
        uploads.begin(files)
    assert kept(tmp_path) == []


def test_no_more_than_32_drops_are_on_their_way(uploads: Uploads) -> None:
    begun = [uploads.begin([Announced("a", 0)]) for _ in range(32)]
    with pytest.raises(InputError, match="32 drops are being sent already"):
        uploads.begin([Announced("a", 0)])
    uploads.drop(begun[0])
    uploads.begin([Announced("a", 0)])


def test_a_full_disk_is_said_first(
    uploads: Uploads, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=100))
    uploads.begin([Announced("a.json", 60)])
    with pytest.raises(InputError, match=rf"'b.json' .* '{tmp_path}' has no room .* TMPDIR"):
        uploads.begin([Announced("b.json", 60)])


def test_what_is_given_up_goes(uploads: Uploads, tmp_path: Path) -> None:
    one = uploads.begin([Announced("a.json", 3)])
    uploads.append(one, 0, 0, io.BytesIO(b"ab"), 2)
    uploads.drop(one)
    uploads.drop(one)
    assert kept(tmp_path) == []


def test_what_nobody_goes_on_with_goes_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    uploads = Uploads(max_bytes=100, max_all=100, idle_s=0.2)
    one = uploads.begin([Announced("a.json", 100)])
    for at in range(4):
        time.sleep(0.1)
        assert uploads.append(one, 0, at, io.BytesIO(b"x"), 1) == at + 1
    assert len(kept(tmp_path)) == 1
    deadline = time.monotonic() + 10
    while kept(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert kept(tmp_path) == []
    with pytest.raises(KeyError):
        uploads.append(one, 0, 4, io.BytesIO(b"x"), 1)


def test_nothing_stays_when_the_process_ends(tmp_path: Path) -> None:
    program = (
        "import os, sys, tempfile; tempfile.tempdir = sys.argv[1]\n"
        "from zerosim_app.uploads import Announced, Uploads\n"
        "uploads = Uploads(10, 10); uploads.begin([Announced('a', 1)])\n"
        "print(len(os.listdir(tempfile.tempdir)))"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    path = os.pathsep.join(str(ROOT / part) for part in ("", "app"))
    environment = os.environ | {"PYTHONPATH": path}
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=True, env=environment
    )
    assert done.stdout == "1\n"
    assert list(tmp_path.iterdir()) == []


def test_files_of_one_folder_lie_in_one_folder() -> None:
    names = [
        "run/a.0.et",
        "run/comm_group.json",
        "run/rank0/t.json",
        "run/rank1/t.json",
        "lone.json",
    ]
    assert [str(path) for path in placed(names)] == [
        "0000/run/a.0.et",
        "0000/run/comm_group.json",
        "0001/rank0/t.json",
        "0002/rank1/t.json",
        "0003/lone.json",
    ]


def test_two_names_that_become_one_are_kept_apart() -> None:
    assert [str(p) for p in placed(["a b", "a-b", "A-B", "a-b"])] == [
        "0000/a-b",
        "0000-2/a-b",
        "0000-3/A-B",
        "0000-4/a-b",
    ]


@given(st.lists(st.text(alphabet=st.sampled_from("ab./\\\0 日%")), min_size=1, max_size=6))
def test_no_name_leads_out_of_its_place(names: list[str]) -> None:
    found = placed(names)
    assert len({str(path).casefold() for path in found}) == len(names)
    for path in found:
        assert not path.is_absolute()
        assert ".." not in path.parts
        assert len(path.parts) in (2, 3)
        assert not set(str(path)) & set("\\\0 日%")
