"""`zerosim list`, as people read it."""

from __future__ import annotations

import orjson
import pytest

from zerosim.cli import run


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert run(["list", *arguments]) == 0
    return capsys.readouterr().out


def test_schedules_are_listed_without_their_options(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, "schedules")
    assert "\nzero2             optimizer states and gradients sharded\n" in text
    assert "bucket" not in text.partition("\nzero2")[2]


def test_a_schedule_is_listed_with_its_options(capsys: pytest.CaptureFixture[str]) -> None:
    header, row = printed(capsys, "schedules", "zero2").splitlines()
    assert header == "option        default  unit   meaning"
    assert row.startswith("bucket_bytes  none     bytes  a bucket closes when it reaches or passes")


def test_one_of_a_list_is_that_one_alone(capsys: pytest.CaptureFixture[str]) -> None:
    rows = orjson.loads(printed(capsys, "clusters", "dgx-2", "--json"))["clusters"]
    assert [row["name"] for row in rows] == ["dgx-2"]


def test_an_unknown_one_gets_a_suggestion(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["list", "schedules", "fsdp3"]) == 2
    assert "no schedule 'fsdp3': did you mean 'fsdp2'" in capsys.readouterr().err


def test_machines_are_listed_with_what_a_node_is(capsys: pytest.CaptureFixture[str]) -> None:
    header, *rows = printed(capsys, "machines").splitlines()
    assert header == "name                inside, GB/s  between, GB/s  a node"
    assert (
        "aws-p5              360           400            8 H100 80 GB on NVSwitch, 32 EFA"
        in "".join(rows)
    )


def test_one_machine_is_listed_with_its_sources_and_what_was_published_of_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = printed(capsys, "machines", "hgx-h200")
    assert "source of intra_busbw  derived: 12 rings x 30 GB/s" in text
    assert (
        "published              all_gather of 17.2 GB over 8 ranks at 361.4 GB/s, here 359" in text
    )
    rows = orjson.loads(printed(capsys, "machines", "hgx-h200", "--json"))["machines"]
    assert rows[0]["intra_busbw"] == 360e9
    assert rows[0]["published"][0]["split"] == "calib"


def test_an_unknown_machine_gets_a_suggestion(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["list", "machines", "dgx-h200"]) == 2
    assert "no machine 'dgx-h200': did you mean" in capsys.readouterr().err
