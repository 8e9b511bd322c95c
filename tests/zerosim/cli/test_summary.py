"""The lines that people read: what fits, what is padding, and that unknown says so."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from zerosim.cli import run
from zerosim.cli.summary import fits_row, padding_row
from zerosim.hardware import MACHINES

V100 = MACHINES["dgx-2"].cluster(16, "float16").device


def test_a_peak_below_the_device_memory_fits() -> None:
    assert fits_row(8 * 10**9, V100) == ("fits", "yes: 25.0% of 32 GB (V100 SXM3 32GB)")


def test_a_peak_as_large_as_the_memory_still_fits_and_a_larger_one_does_not() -> None:
    device = replace(V100, memory_bytes=1000)
    assert fits_row(1000, device)[1].startswith("yes: 100.0%")
    assert fits_row(1001, device)[1].startswith("no: 100.1%")


def test_an_unknown_peak_is_said_to_be_unknown() -> None:
    assert fits_row(None, V100) == ("fits", "unknown")


def test_padding_is_shown_as_elements_and_share() -> None:
    assert padding_row(1008, 1000) == ("padding", "8 of 1 k parameters (0.800%)")


def test_the_padding_of_an_engine_is_that_of_its_own_buffers(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ["--set", "schedule=megatron", "--set", "world_size=5"]
    assert run(["simulate", "lesson-zero3", *words]) == 0
    lines = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    # 1,771,776 elements go up to a multiple of lcm(5, 128) = 640: 1,772,160.
    assert lines["padding"].startswith("384 of 1.772 M parameters")


def test_ranks_that_differ_alike_share_a_row_of_a_comparison(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, word in (("a", "hidden=768"), ("b", "hidden=384")):
        assert run(["simulate", "lesson-zero3", "--set", word, "-o", str(tmp_path / name)]) == 0
    capsys.readouterr()
    assert run(["compare", str(tmp_path / "a"), str(tmp_path / "b")]) == 0
    table = capsys.readouterr().out.partition("largest differences")[2].splitlines()
    assert table[0].split() == ["ranks", "a", "b"]
    assert [row.split()[2] for row in table[1:4]] == ["0-2", "0-2", "0-2"]
