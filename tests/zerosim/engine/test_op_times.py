"""A time that was measured for an op goes before the formula; gathered rows are put in place first."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from zerosim.errors import InputError, ScenarioError, UnknownNameError
from zerosim.hardware.op_times import op_times_from
from zerosim.scenario import Scenario, cluster_of, run
from zerosim.trace import Trace

SOURCE = "measured"


def _run(*ops: tuple[str, str, float]) -> Trace:
    tables = [{"kind": k, "unit": u, "seconds": s, "source": SOURCE} for k, u, s in ops]
    scenario = Scenario("x").with_set(["cluster=classroom", "world_size=2", "layers=3"])
    record = scenario.to_dict()
    record["cluster"]["calibration"] = {"op": tables}
    return run(Scenario.from_dict(record))


def _times(trace: Trace, name: str) -> list[tuple[int, int]]:
    rows = trace.spans.filter((pl.col("name") == name) & (pl.col("rank") == 0))
    return rows.select("start_ns", "end_ns").rows()


def test_a_known_op_takes_what_was_measured_and_others_what_the_formula_says() -> None:
    plain, known = _run(), _run(("forward", "1", 0.25))
    ((start, end),) = _times(known, "F1")
    assert end - start == 250_000_000
    for name in ("F0", "B1", "AG1"):
        ours, theirs = _times(known, name)[0], _times(plain, name)[0]
        assert ours[1] - ours[0] == theirs[1] - theirs[0]


def test_whoever_first_waits_for_a_gather_puts_its_rows_in_place() -> None:
    plain, known = _run(), _run(("all_gather", "1", 0.5))
    longer = {
        name: (_times(known, name)[0][1] - _times(known, name)[0][0])
        - (_times(plain, name)[0][1] - _times(plain, name)[0][0])
        for name in ("F0", "F1", "B1", "F2")
    }
    # Layer 1 is gathered for its forward, and again for its backward.
    assert longer == {"F0": 0, "F1": 500_000_000, "B1": 500_000_000, "F2": 0}


@pytest.mark.parametrize(
    ("record", "error", "told"),
    [
        ("x", ScenarioError, r"give tables \[\[op\]\]"),
        ([{"kind": "forward"}], ScenarioError, "has no unit: give kind, unit, seconds, source"),
        (
            [{"kind": "forwards", "unit": "0", "seconds": 1, "source": "s"}],
            UnknownNameError,
            "did you mean 'forward'",
        ),
        (
            [{"kind": "forward", "unit": "0", "seconds": -1, "source": "s"}],
            ScenarioError,
            "seconds is -1: give 0 to 1000",
        ),
        (
            [{"kind": "forward", "unit": "0", "seconds": 1, "source": ""}],
            ScenarioError,
            "give text for both",
        ),
        (
            [{"kind": "forward", "unit": "0", "seconds": 1, "source": "s"}] * 2,
            ScenarioError,
            "two ops of one kind and unit: keep one",
        ),
    ],
)
def test_times_that_cannot_be_are_refused(record: Any, error: type[Exception], told: str) -> None:
    with pytest.raises(error, match=told):
        op_times_from(record, "calibration.op")


def test_the_lab_reaches_its_share_of_the_rate_one_says() -> None:
    lab = Scenario("x").with_set(["cluster=lab", "cluster.inter=100Mbit"])
    assert cluster_of(lab).inter.busbw == pytest.approx(12.5e6 * 1448 / 1514)
    assert cluster_of(lab.with_set(["cluster.inter=1.5Gbit"])).inter.busbw == pytest.approx(
        187.5e6 * 1448 / 1514
    )


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["cluster.inter=fast"], "rate is 'fast': give bits a second"),
        (["cluster.inter=1Mbit", "inter_busbw=1e6"], "beside inter_busbw 1000000.0: give one"),
        (["scatter=a2a"], "no scatter 'a2a'"),
    ],
)
def test_a_lab_that_cannot_be_is_refused(words: list[str], told: str) -> None:
    with pytest.raises(InputError, match=told):
        Scenario("x").with_set(["cluster=lab", *words])


def test_a_machine_without_gloo_has_no_scatter() -> None:
    scenario = Scenario("x").with_set(["cluster=dgx-h100", "scatter=all-to-all"])
    with pytest.raises(ScenarioError, match="has no Gloo: leave it out, or take cluster lab"):
        cluster_of(scenario)


@pytest.mark.parametrize(("scatter", "times"), [("native", 2), ("all-to-all", 1)])
def test_gloo_reduce_scatters_once_or_twice_around(scatter: str, times: int) -> None:
    scenario = Scenario("x").with_set(["cluster=lab", "world_size=2", f"scatter={scatter}"])
    spans = run(scenario).spans.filter(pl.col("kind") == "reduce_scatter")
    assert (spans["wire_bytes"] * 2 == times * spans["nbytes"]).all()
