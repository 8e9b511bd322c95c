"""The server: says its address, and refuses a taken port in a sentence."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from zerosim.errors import InputError
from zerosim_app.__main__ import main, serve

ROOT = Path(__file__).parents[2]


@pytest.fixture
def taken() -> Iterator[int]:
    """A port that somebody else listens on."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        yield other.getsockname()[1]


def test_a_taken_port_is_refused_with_the_remedy(tmp_path: Path, taken: int) -> None:
    with pytest.raises(InputError, match=rf"cannot listen on 127.0.0.1:{taken} .*another --port"):
        serve(tmp_path, port=taken)


def test_a_port_that_cannot_be_is_refused_too(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot listen on 127\.0\.0\.1:70000"):
        serve(tmp_path, port=70_000)


def test_an_empty_host_does_not_mean_every_address(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the host is '': give an address such as 127"):
        serve(tmp_path, host="", port=0)


def test_a_library_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("mine")
    with pytest.raises(InputError, match=r"'.*notes' is no directory of runs: give one with"):
        serve(tmp_path / "notes", port=0)


def test_the_command_line_exits_with_2_on_bad_input(
    tmp_path: Path, taken: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(tmp_path), "--port", str(taken)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1


def test_the_address_is_printed_and_answers_and_nothing_sent_stays(tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    path = os.pathsep.join(str(ROOT / part) for part in ("", "app"))
    command = [sys.executable, "-m", "zerosim_app", str(tmp_path / "runs"), "--port", "0"]
    environment = os.environ | {"PYTHONPATH": path, "TMPDIR": str(scratch)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as server:
        try:
            assert server.stdout is not None
            said = server.stdout.readline()
            found = re.fullmatch(r"zerosim dashboard: (http://127\.0\.0\.1:\d+)\n", said)
            assert found, said
            with urllib.request.urlopen(f"{found[1]}/healthz", timeout=30) as answer:  # noqa: S310 - our own server
                assert answer.read() == b"ok\n"
            announced = b'{"files": [{"name": "a.json", "size": 9}]}'
            with urllib.request.urlopen(f"{found[1]}/api/uploads", announced, timeout=30) as answer:  # noqa: S310 - same
                assert answer.status == 201
            assert len(list(scratch.rglob("a.json"))) == 1
        finally:
            server.terminate()
    assert list(scratch.iterdir()) == []
