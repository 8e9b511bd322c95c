"""Holistic Trace Analysis reads the export of a simulated run as a real one, and finds the same overlap."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from zerosim.analysis.summary import summarize
from zerosim.exporters import export
from zerosim.scenario import load_scenario, run


@pytest.fixture
def analysis() -> Any:
    """HTA's face; it is in none of our extras, since it wants a whole notebook."""
    pytest.importorskip("hta", reason="needs HolisticTraceAnalysis 0.5")
    logging.disable(logging.WARNING)  # it warns of its own rounding
    module = pytest.importorskip("hta.trace_analysis")
    yield module.TraceAnalysis
    logging.disable(logging.NOTSET)


@pytest.mark.filterwarnings("ignore")  # pandas' about HTA's code
@pytest.mark.parametrize(
    ("scenario", "last"),
    [("gpt2-1.5b", True), ("lesson-zero3", True), ("lesson-zero3", False), ("lesson-ddp", True)],
)
def test_its_overlap_is_ours(scenario: str, last: bool, analysis: Any, tmp_path: Path) -> None:
    schedule = [] if scenario.startswith("lesson") else ["schedule=zero3"]
    trace = run(load_scenario(scenario, [*schedule, "steps=3"]))
    export(trace, "chrome", tmp_path / "ranks")
    # It leaves out the last step unless told otherwise; all of ours are alike.
    seen = analysis(trace_dir=str(tmp_path / "ranks"), include_last_profiler_step=last)
    found = seen.get_comm_comp_overlap(visualize=False).to_dict("list")
    assert sorted(found["rank"]) == list(trace.ranks)
    expected = 100 * summarize(trace)["overlap"]
    assert found["comp_comm_overlap_pctg"] == [pytest.approx(expected, abs=0.1)] * len(trace.ranks)
