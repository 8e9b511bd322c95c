"""Recordings: what was seen survives the file, and every case of DeepSpeed has been recorded."""

from __future__ import annotations

from pathlib import Path

import pytest

from zerosim_runtime.equality.case import Case
from zerosim_runtime.equality.deepspeed import CASES
from zerosim_runtime.equality.recording import Recording, read_recording, write_recording
from zerosim_runtime.equality.seen import Seen

RECORDINGS = Path(__file__).parents[2] / "golden" / "deepspeed"
SCENARIO = {"workload": {"layers": 1}, "schedule": {"name": "ddp"}}
CASE = Case("one", "ddp", 2, SCENARIO, extra={"shape": {"bias": False}})
B0 = Seen(1, 0, "backward", unit="0")
AR = Seen(1, 1, "all_reduce", 12, "float32", (0, 1))
RS = Seen(1, 1, "reduce_scatter", 12, "float32", (0, 1))


def test_what_ranks_saw_alike_is_written_once_and_read_for_each(tmp_path: Path) -> None:
    recording = Recording(CASE, {"torch": "2.13.0"}, ((B0, AR), (B0, AR)))
    path = write_recording(recording, tmp_path)
    assert path.name == "one.json"
    assert path.read_text().count("all_reduce") == 1
    assert read_recording(path) == recording


def test_what_ranks_saw_differently_is_kept_apart(tmp_path: Path) -> None:
    recording = Recording(CASE, {"torch": "2.13.0"}, ((B0, AR), (B0, RS)))
    assert read_recording(write_recording(recording, tmp_path)) == recording


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_recording_is_of_the_case_that_bears_its_name(case: Case) -> None:
    assert read_recording(RECORDINGS / f"{case.name}.json").case == case


def test_no_recording_is_of_a_case_that_is_gone() -> None:
    assert {path.stem for path in RECORDINGS.glob("*.json")} == {case.name for case in CASES}
