"""DeepSpeed ZeRO-3's recordings: of the cases as they stand, and how their rows are counted."""

from __future__ import annotations

from pathlib import Path

import pytest

from zerosim_runtime.equality.deepspeed3_cases import CASES
from zerosim_runtime.equality.deepspeed3_plan import in_place
from zerosim_runtime.equality.recording import read_recording
from zerosim_runtime.equality.seen import Seen

RECORDINGS = Path(__file__).parents[2] / "golden" / "deepspeed"


@pytest.mark.parametrize("name", [case.name for case in CASES])
def test_the_recording_is_of_the_case_as_it_stands(name: str) -> None:
    (case,) = (case for case in CASES if case.name == name)
    assert read_recording(RECORDINGS / f"{name}.json").case == case


def test_checks_of_the_trace_count_to_the_micro_batch_that_was_recorded() -> None:
    rows = [
        Seen(1, 0, "broadcast", 1, "int64"),
        Seen(1, 0, "forward", unit="0"),
        Seen(2, 0, "broadcast", 1, "int64"),
        Seen(2, 0, "forward", unit="0"),
    ]
    assert [(row.step, row.kind) for row in in_place(rows)] == [
        (1, "broadcast"),
        (1, "forward"),
        (1, "broadcast"),
        (2, "forward"),
    ]
