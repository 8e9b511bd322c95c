"""What a summary adds for people: a step that warms up, and why nothing overlaps."""

from __future__ import annotations

import pytest

from zerosim.analysis.summary import summarize
from zerosim.cli import run as command
from zerosim.cli.notes import notes
from zerosim.scenario import load_scenario, run


def said(*words: str) -> list[str]:
    trace = run(load_scenario("lesson-zero3", words))
    return [line for _, line in notes(trace, summarize(trace))]


def test_zero_2_at_deepspeeds_defaults_says_why_nothing_overlaps() -> None:
    (line,) = said("schedule=deepspeed-2")
    why, knobs = line.split("; it depends on ")
    assert why == "hardly anything overlaps: gradients are reduced once the backward is over"
    assert knobs == "reduce_bucket_size=500,000,000 elements, overlap_comm=false"


def test_buckets_without_a_stream_of_their_own_take_turns_with_computing() -> None:
    (line,) = said("schedule=deepspeed-2", "reduce_bucket_size=600000")
    assert line.startswith("hardly anything overlaps: computing and communication take turns; it")


@pytest.mark.parametrize(("steps", "lines"), [(1, 1), (2, 0)])
def test_a_step_that_warms_up_is_said_to(steps: int, lines: int) -> None:
    words = ("schedule=ddp", "bucket_bytes=2362368", f"steps={steps}")
    expected = "step 1 warms up, later ones may differ: see one with --set steps=2"
    assert said(*words) == [expected] * lines


@pytest.mark.parametrize("words", [("schedule=fsdp2",), ("world_size=1",)])
def test_there_is_nothing_to_say_of_what_overlaps_or_does_not_communicate(
    words: tuple[str, ...],
) -> None:
    assert said(*words) == []


def test_the_command_prints_the_note_last(capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["simulate", "lesson-zero3", "--set", "schedule=deepspeed-2"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("note           hardly anything")
