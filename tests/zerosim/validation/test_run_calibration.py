"""A run says what its ops take: medians, what lies between them, and a line through its transfers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from zerosim.cli import run as command
from zerosim.errors import MeasurementError
from zerosim.hardware.calibration import read_calibration
from zerosim.scenario import Scenario, run
from zerosim.store import save_run
from zerosim.trace import Trace
from zerosim.validation.run_calibration import Moved, calibrated, line_through

WORDS = [
    *("cluster=lab", "cluster.inter=100Mbit", "world_size=2", "layers=3", "hidden=500"),
    *("micro_batch=100", "run.steps=3", "dtype=float32"),
]
OPS = [
    {"kind": kind, "unit": unit, "seconds": seconds, "source": "given"}
    for kind, unit, seconds in (
        *(("forward", f"{i}", 0.002 + i / 1000) for i in range(3)),
        *(("backward", f"{i}", 0.005 + i / 1000) for i in range(3)),
        *(("all_gather", f"{i}", 0.0005) for i in range(3)),
        *(("fill", f"{i}", 0.0003) for i in range(3)),
        ("optimizer", "", 0.004),
    )
]
CONSTANTS = {
    "op": OPS,
    "launcher": {"Gloo": {"issue_s": 0.0004, "kernel_s": 0.0001, "source": "given"}},
    "fabric": {
        "lab link": {
            "share": 1448 / 1514,
            "net_latency_s": 0.0,
            "host_busbw": 30e6,
            "computing_busbw": 20e6,
            "source": "given",
        }
    },
}


def _measured(*words: str) -> Trace:
    """A run that looks as if real ranks had made it, on a machine that has just these constants."""
    scenario = Scenario("played").with_set([*WORDS, *words])
    record = scenario.to_dict()
    record["cluster"]["calibration"] = CONSTANTS
    made = run(Scenario.from_dict(record))
    return replace(made, meta=replace(made.meta, source="measured", scenario=scenario.to_dict()))


def test_a_run_gives_back_the_constants_that_it_was_made_with() -> None:
    found = calibrated([_measured()])
    seconds = {(op.kind, op.unit): op.seconds for op in found.op}
    # A simulated op puts gathered rows in place within its own time.
    assert seconds["forward", "2"] == pytest.approx(0.0045)
    assert seconds["backward", "2"] == pytest.approx(0.007)
    assert seconds["backward", "0"] == pytest.approx(0.0055)
    assert seconds["optimizer", ""] == pytest.approx(0.004)
    assert found.launcher["Gloo"].issue_s == pytest.approx(0.0004, rel=0.1)
    link = found.fabric["lab link"]
    assert link.share == pytest.approx(1448 / 1514)
    assert link.host_busbw == pytest.approx(30e6, rel=0.02)
    # Without prefetch no gather runs beside computing.
    assert link.computing_busbw is None


def test_gathers_beside_computing_say_what_hosts_push_while_they_compute() -> None:
    link = calibrated([_measured("prefetch=1", "cluster.inter=400Mbit")]).fabric["lab link"]
    assert link.host_busbw == pytest.approx(30e6, rel=0.05)
    assert link.computing_busbw == pytest.approx(20e6, rel=0.05)


def test_what_a_run_gives_predicts_another_schedule_at_another_rate() -> None:
    constants = calibrated([_measured("prefetch=1")]).to_dict()
    for words in (["schedule=zero2", "cluster.inter=50Mbit"], ["prefetch=0"]):
        seen = _measured(*words)
        scenario = Scenario("x").with_set([*WORDS, *words]).to_dict()
        scenario["cluster"]["calibration"] = constants
        predicted = run(Scenario.from_dict(scenario))
        ends = [trace.spans["end_ns"].max() for trace in (predicted, seen)]
        assert ends[0] == pytest.approx(ends[1], rel=0.02)


def beside(rate: float, loses: float) -> list[Moved]:
    """Transfers that reach `rate` alone and lose that share of it beside computing."""
    return [
        Moved(n, 1e6, seconds := n / rate / (1 - share * loses), share * seconds)
        for n in (20_000, 50_000, 80_000)
        for share in (0.0, 0.3, 1.0)
    ]


def test_a_line_through_transfers_parts_the_rate_from_what_each_costs() -> None:
    moved = [Moved(n, 1e6, 0.002 + n / 0.8e6) for n in (10_000, 20_000, 80_000)]
    found = line_through(moved, 1.0, "x")
    assert found is not None
    assert found.reached(1e6) == pytest.approx(0.8e6)
    assert found.net_base_s == pytest.approx(0.002)
    assert line_through(moved[:2], 1.0, "x") is None


def test_what_is_missing_of_a_link_is_the_hosts_and_weighs_less_on_slower_ones() -> None:
    found = line_through([Moved(n, 1e6, n / 0.8e6) for n in (10_000, 20_000, 80_000)], 1.0, "x")
    assert found is not None
    assert found.share == 1.0
    assert found.host_busbw == pytest.approx(1e6 / 0.75, rel=1e-4)
    assert found.reached(0.25e6) == pytest.approx(0.2457e6, rel=1e-3)


def test_what_transfers_lose_beside_computing_is_told_apart_from_their_rate() -> None:
    found = line_through(beside(0.8e6, loses=0.5), 1.0, "x")
    assert found is not None
    assert found.reached(1e6) == pytest.approx(0.8e6)
    assert found.kept(1e6) == pytest.approx(0.5, rel=1e-5)
    alike = [Moved(n, 1e6, n / 0.4e6, n / 0.4e6) for n in (20_000, 50_000, 80_000)]
    assert (found := line_through(alike, 1.0, "x")) is not None
    assert found.computing_busbw is None


def test_transfers_that_reach_the_rate_even_beside_computing_lose_nothing() -> None:
    found = line_through(beside(1.25e6, loses=0.1), 1.0, "x")
    assert found is not None
    assert (found.share, found.host_busbw, found.computing_busbw) == (1.0, None, None)


def test_a_link_that_brings_more_than_its_share_has_a_larger_one() -> None:
    found = line_through([Moved(n, 1e6, n / 0.98e6) for n in (10_000, 20_000, 80_000)], 0.95, "x")
    assert found is not None
    assert found.share == pytest.approx(0.98)
    assert found.host_busbw is None


def test_runs_that_say_nothing_of_a_machine_are_refused() -> None:
    simulated = run(Scenario("x").with_set(WORDS))
    with pytest.raises(MeasurementError, match="was not made by real ranks"):
        calibrated([simulated])
    with pytest.raises(MeasurementError, match="no run is given"):
        calibrated([])
    other = _measured()
    cut = replace(other, spans=other.spans.filter(pl.col("name") != "F1"))
    with pytest.raises(MeasurementError, match="its plan 54: give a whole run"):
        calibrated([cut])


def test_the_command_writes_what_simulate_reads(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save_run(_measured(), tmp_path / "run")
    out = tmp_path / "mine.toml"
    assert command(["calibrate", str(tmp_path / "run"), "-o", str(out)]) == 0
    assert "lab link" in capsys.readouterr().out
    # Forward, backward, fill and gather of three layers, and the update.
    assert len(read_calibration(out).op) == 13
    words = [word for w in WORDS for word in ("--set", w)]
    assert command(["simulate", "lesson-zero3", *words, "--calibration", str(out)]) == 0


def test_a_run_without_links_of_a_known_rate_says_that_it_found_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save_run(_measured("cluster=cpu-gloo"), tmp_path / "run")
    assert command(["calibrate", str(tmp_path / "run")]) == 0
    said = capsys.readouterr().out
    assert "not found: give runs of zerosim lab" in said
    assert "played (zero3, 2 ranks, cpu-gloo)" in said


def test_a_file_that_is_no_run_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "log").write_text("x")
    assert command(["calibrate", str(tmp_path / "log")]) == 2
    assert "is no run: give a directory that zerosim trace" in capsys.readouterr().err
