"""Where nodes meet: what is refused, what torchrun is told, by which interface ranks talk."""

from __future__ import annotations

from pathlib import Path

import pytest

from zerosim.cli import run as run_command
from zerosim_runtime.rendezvous import (
    Rendezvous,
    address_towards,
    interface_of,
    rendezvous_at,
    torchrun_words,
)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--nnodes", "2"], "--nnodes is 2, but no place to meet is given: add --rendezvous"),
        (["--nnodes", "2", "--rendezvous", "node-0"], "--rendezvous is 'node-0': give HOST:PORT"),
        (["--nnodes", "2", "--rendezvous", "a:0"], "--rendezvous is 'a:0': give HOST:PORT"),
        (["--nnodes", "2", "--rendezvous", "$(x):1"], "give HOST:PORT of the first node"),
        (
            ["--nnodes", "2", "--node-rank", "2", "--rendezvous", "a:1"],
            "--node-rank is 2: give 0 to 1, one number a node",
        ),
        (
            ["--nnodes=2", "--node-rank=0", "--max-restarts=1", "--rendezvous=a:1"],
            "--max-restarts is 1 beside --node-rank: leave --node-rank out",
        ),
        (
            ["--nnodes", "2", "--rendezvous", "no-such-host.invalid:29500"],
            "--rendezvous: nobody knows the host 'no-such-host.invalid'",
        ),
    ],
)
def test_a_place_to_meet_that_is_none_is_refused(
    words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["trace", *words, "lesson-zero3", "-o", str(tmp_path / "parts")]) == 2
    assert message in capsys.readouterr().err


def test_torchrun_is_told_where_to_meet() -> None:
    static = torchrun_words(rendezvous_at("node-0:29500", 3, 1), "10.0.0.2")
    assert static == [
        "--nnodes=3",
        "--rdzv-id=zerosim",
        "--node-rank=1",
        "--master-addr=node-0",
        "--master-port=29500",
        "--rdzv-conf=timeout=300",
        "--local-addr=10.0.0.2",
    ]
    coming = torchrun_words(rendezvous_at("[fe80::1]:29500", 3), None)
    assert coming[2:] == [
        "--rdzv-backend=c10d",
        "--rdzv-endpoint=[fe80::1]:29500",
        "--rdzv-conf=join_timeout=300",
    ]


def test_ranks_talk_by_the_interface_that_leads_to_the_rendezvous() -> None:
    address = address_towards(Rendezvous("127.0.0.1", 29500, 2))
    assert (address, interface_of(address)) == ("127.0.0.1", "lo")
    assert interface_of("203.0.113.9") is None
    assert interface_of(None) is None


def test_a_place_of_parts_is_not_written_twice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "node-0").mkdir()
    words = ["--nnodes", "2", "--node-rank", "0", "--rendezvous", "127.0.0.1:29500"]
    assert run_command(["trace", *words, "lesson-zero3", "-o", str(tmp_path)]) == 2
    assert "is there already, from another run: give another place" in capsys.readouterr().err
