"""`zerosim simulate` says how far off it may be, from measured runs near to the scenario."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from tests.zerosim.configs.conftest import FSDP, LLAMA
from zerosim.cli import run

pytest.importorskip("yaml", reason="PyYAML, a dependency, is not installed here")
WORDS = ("--set", "cluster=dgx-a100", "--set", "world_size=64")


@pytest.fixture
def config(tmp_path: Path) -> tuple[str, ...]:
    """Llama-2 7B under Accelerate's FSDP, as its two public files say it, on 64 A100."""
    fsdp, model = tmp_path / "fsdp.yaml", tmp_path / "config.json"
    fsdp.write_text(FSDP.replace("SHARD_GRAD_OP", "FULL_SHARD"))
    model.write_text(LLAMA)
    return ("--from", str(fsdp), "--model-config", str(model), *WORDS)


def test_a_public_configuration_is_answered_with_its_error_band(
    config: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["simulate", *config, "--json"]) == 0
    found = orjson.loads(capsys.readouterr().out)["error_band"]
    assert found["family"] == "FSDP/ZeRO-3"
    assert 0 < found["median"] <= found["p90"]
    assert found["n"] == len(found["nearest"]) >= 5
    assert set(found["sources"]) == {near["source_id"] for near in found["nearest"]}
    assert {near["gpu"].split()[0] for near in found["nearest"]} == {"A100"}
    assert {near["split"] for near in found["nearest"]} == {"test"}


def test_people_read_the_band_below_the_step(
    config: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["simulate", *config]) == 0
    lines = capsys.readouterr().out.splitlines()
    step = next(i for i, line in enumerate(lines) if line.startswith("step "))
    assert lines[step + 1].startswith("error band     ±")
    assert "measured FSDP/ZeRO-3 runs nearest to it: A100" in lines[step + 1]


def test_where_nothing_measured_is_near_the_band_is_unknown(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["simulate", "lesson-zero3", "--json"]) == 0
    assert orjson.loads(capsys.readouterr().out)["error_band"] is None
    assert run(["simulate", "lesson-zero3"]) == 0
    assert "error band     unknown: no measured runs are near" in capsys.readouterr().out
