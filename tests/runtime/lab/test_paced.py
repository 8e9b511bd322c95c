"""Without namespaces: the same command, on links that are only paced."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from zerosim.cli import run as run_command
from zerosim.errors import InputError
from zerosim.scenario import load_scenario
from zerosim.store import load_run
from zerosim.units import read_rate
from zerosim_runtime.lab import check, namespaces
from zerosim_runtime.lab.commands import LabError
from zerosim_runtime.lab.paced import backend_of, run_paced
from zerosim_runtime.lab.shape import Shape
from zerosim_runtime.pace import parse_backend


def test_a_paced_link_has_what_a_real_one_leaves_to_a_program() -> None:
    name, pace = parse_backend(backend_of(Shape(2, 2, read_rate("200Mbit"), latency_s=5e-5)))
    assert name == "gloo"
    assert pace is not None
    assert pace.rate_bytes_s == pytest.approx(25e6 * 1448 / 1514)
    assert pace.latency_s == pytest.approx(5e-5)


def test_a_rate_inside_a_node_needs_namespaces() -> None:
    with pytest.raises(InputError, match="--intra needs network namespaces"):
        run_paced(load_scenario("lesson-zero3"), Shape(2, 1, 25e6, intra=1e9))


@pytest.mark.runtime
def test_without_the_right_to_namespaces_links_are_paced_and_it_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two nodes of one rank, 50 Mbit/s: 13 MB a step and rank take 2.2 s, however fast the loopback."""

    def refused(*_: object) -> None:
        raise LabError("no network namespace can be made (Operation not permitted)")

    monkeypatch.setattr(namespaces, "_first", refused)
    assert check.look().lab == "paced"
    out = tmp_path / "run"
    words = ["--nodes", "2", "--ranks-per-node", "1", "--inter", "50Mbit", "--steps", "2"]
    assert run_command(["lab", *words, "lesson-zero3", "--json", "-o", str(out)]) == 0
    told = capsys.readouterr()
    assert "links are paced instead" in told.err
    summary = orjson.loads(told.out)
    assert summary["links"] == []
    least_s = summary["bytes_sent"] / (6.25e6 * 1448 / 1514)
    assert least_s <= summary["step_ns"] / 1e9
    scenario = load_run(out).meta.scenario or {}
    assert scenario["cluster"]["name"] == "lab"
    assert scenario["cluster"]["ranks_per_node"] == 1
