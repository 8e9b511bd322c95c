"""The script of docs/zero.md is the one in the package, and two ranks run it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from zerosim_runtime.examples import train_zero
from zerosim_runtime.launch import run_ranks

PAGE = Path(__file__).parents[3] / "docs/zero.md"
SCRIPT = Path(train_zero.__file__)


def test_the_page_shows_the_script_that_the_package_has() -> None:
    (block,) = re.findall(r"^```py\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert block == SCRIPT.read_text()


@pytest.mark.runtime
def test_two_ranks_run_the_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_ranks([str(SCRIPT), "2"], tmp_path, 2) == 0, (tmp_path / "torchrun.log").read_text()
    losses = re.findall(r"loss ([\d.]+)", (tmp_path / "torchrun.log").read_text())
    assert len(losses) == 20
    assert (tmp_path / "checkpoint" / "rank-1.safetensors").is_file()
