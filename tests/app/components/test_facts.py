"""A run's figures in words: unknown is unknown, and the scenario reads back as it was."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest

from zerosim.quality import Quality
from zerosim.scenario import PRESETS, load_scenario
from zerosim.toml_text import write_toml
from zerosim.trace import Clock, Meta, make_trace
from zerosim_app.components.facts import about, percent, tiles

NOTHING: dict[str, Any] = dict.fromkeys(
    ("step_ns", "compute_ns", "comm_ns", "exposed_ns", "overlap", "peak_bytes", "bytes_sent",
     "mfu", "mfu_causal", "world_size")
) | {"ranks": []}  # fmt: skip


def test_what_is_unknown_is_called_so_and_never_0(tree: Any) -> None:
    page = tree(tiles(NOTHING))
    assert page.text.count("unknown") == 9  # eight tiles, and the world size
    assert " 0" not in page.text
    assert len(page.named("zs-unknown")) == 8


def test_zero_is_zero(tree: Any) -> None:
    text = tree(tiles(NOTHING | {"exposed_ns": 0, "overlap": 1.0, "step_ns": 10})).text
    assert "Exposed 0 ns 0 % of the step" in text
    assert "Overlap 100.0 %" in text


def test_memory_stands_with_its_byte_convention(tree: Any) -> None:
    scenario = load_scenario("gpt2-1.5b", ["convention=megatron"]).to_dict()
    text = tree(tiles(NOTHING | {"peak_bytes": 7000}, scenario)).text
    assert "7 kB allocated, one rank; megatron: 2 + 4 + 12 B a parameter" in text


def test_a_scenario_of_another_version_leaves_the_convention_out(tree: Any) -> None:
    text = tree(tiles(NOTHING | {"peak_bytes": 7000}, {"schedule": {"name": "zero9"}})).text
    assert "7 kB allocated, one rank Bytes sent" in text


def test_what_is_reserved_stands_beside_what_is_allocated(tree: Any) -> None:
    text = tree(tiles(NOTHING | {"peak_bytes": 7000, "peak_reserved_bytes": 9000})).text
    assert "7 kB 9 kB reserved" in text


def test_shares_are_per_cent() -> None:
    assert percent(0.1234) == "12.3 %"
    assert percent(None) == "unknown"


@pytest.mark.parametrize("name", list(PRESETS))
def test_a_scenario_shown_as_toml_reads_back_as_it_was(name: str) -> None:
    record = load_scenario(name).to_dict()
    assert tomllib.loads(write_toml(record)) == record


def test_doubts_about_a_run_are_told(tree: Any) -> None:
    spans = {"rank": [0], "kind": ["host"], "stream": ["host"], "name": ["x"],
             "start_ns": [0], "end_ns": [1]}  # fmt: skip
    meta = Meta(
        "torn",
        "measured",
        None,
        clock=Clock(aligned=False),
        quality=Quality(events=7, lost=2, warnings=("rank 3 has no file",)),
        finished=False,
    )
    text = tree(about(make_trace(spans, meta))).text
    assert "Lost 2" in text
    assert "not aligned: do not compare ranks" in text
    assert "no: some rank stopped early" in text
    assert "rank 3 has no file" in text
    assert "Unknown: this run was imported." in text


def test_the_report_on_an_imported_run_stands_beside_it(tree: Any) -> None:
    meta = Meta("r", "imported", 2, quality=Quality(events=7, lost=2, unknown=("memory",)))
    spans = {"rank": [1], "kind": ["host"], "stream": ["host"], "name": ["x"],
             "start_ns": [0], "end_ns": [1]}  # fmt: skip
    text = tree(about(make_trace(spans, meta))).text
    assert "Events 7 read, 0 repaired, 0 skipped, 2 lost" in text
    assert "Ranks 1; missing: 0" in text
    assert "Unknown memory" in text


def test_a_run_without_steps_has_the_figures_of_the_whole(tree: Any) -> None:
    idle = {"compute_ns": 4000, "comm_ns": 0, "mem_ns": 0, "exposed_ns": 0}
    busy = {"compute_ns": 8000, "comm_ns": 2000, "mem_ns": 0, "exposed_ns": 500}
    ranks = [{"rank": 0, "whole": idle}, {"rank": 1, "whole": busy}]
    text = tree(tiles(NOTHING | {"ranks": ranks})).text
    assert "Step unknown" in text
    assert "Compute 8 µs whole run, rank 1 Communication 2 µs whole run, rank 1" in text
    assert "Exposed 500 ns whole run, rank 1 Overlap 75.0 % of it is hidden" in text
