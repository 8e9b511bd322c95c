"""The sequence of each schedule as one line, by default and with each of its knobs."""

from __future__ import annotations

from itertools import groupby

import pytest

from zerosim.errors import ScenarioError
from zerosim.scenario import load_scenario, plan_of
from zerosim.schedules import SCHEDULES

LAYER_BYTES = (768 * 768 + 768) * 4


def order(preset: str, *words: str) -> str:
    return plan_of(load_scenario(preset, words)).order


def test_zero3_runs_the_textbook_sequence() -> None:
    assert order("lesson-zero3") == "AG0 F0 AG1 F1 AG2 F2 B2 RS2 AG1 B1 RS1 AG0 B0 RS0 OPT"


def test_ddp_reduces_each_bucket_as_its_layer_is_done() -> None:
    assert order("lesson-ddp") == "F0 F1 F2 B2 AR2 B1 AR1 B0 AR0 OPT"


@pytest.mark.parametrize("schedule", ["zero1", "zero2"])
def test_zero1_and_zero2_gather_after_the_update(schedule: str) -> None:
    assert order(f"lesson-{schedule}") == "F0 F1 F2 B2 RS2 B1 RS1 B0 RS0 OPT AG0 AG1 AG2"


def test_zero3_gathers_the_last_layer_again_if_it_was_not_kept() -> None:
    assert (
        order("lesson-zero3", "keep_last=false")
        == "AG0 F0 AG1 F1 AG2 F2 AG2 B2 RS2 AG1 B1 RS1 AG0 B0 RS0 OPT"
    )


def test_zero3_gathers_one_layer_ahead() -> None:
    assert (
        order("lesson-zero3", "prefetch=1")
        == "AG0 AG1 F0 AG2 F1 F2 AG1 B2 RS2 AG0 B1 RS1 B0 RS0 OPT"
    )


def test_zero3_gathers_two_layers_ahead() -> None:
    assert (
        order("lesson-zero3", "prefetch=2")
        == "AG0 AG1 AG2 F0 F1 F2 AG1 AG0 B2 RS2 B1 RS1 B0 RS0 OPT"
    )


def test_two_communicators_change_the_times_and_not_the_order() -> None:
    assert order("lesson-zero3", "communicators=2") == order("lesson-zero3")


# Check case C7: k micro-batches reduce 1, 1, k, k times; gather 0, 1, 1, 2k times.
def test_ddp_reduces_once_in_the_last_micro_batch() -> None:
    assert (
        order("lesson-ddp", "micro_batches=2")
        == "F0 F1 F2 B2 B1 B0 F0 F1 F2 B2 AR2 B1 AR1 B0 AR0 OPT"
    )


def test_zero1_reduces_once_in_the_last_micro_batch() -> None:
    assert (
        order("lesson-zero1", "micro_batches=2")
        == "F0 F1 F2 B2 B1 B0 F0 F1 F2 B2 RS2 B1 RS1 B0 RS0 OPT AG0 AG1 AG2"
    )


def test_zero2_reduces_in_every_micro_batch() -> None:
    assert (
        order("lesson-zero2", "micro_batches=2")
        == "F0 F1 F2 B2 RS2 B1 RS1 B0 RS0 F0 F1 F2 B2 RS2 B1 RS1 B0 RS0 OPT AG0 AG1 AG2"
    )


def test_zero3_gathers_and_reduces_in_every_micro_batch() -> None:
    once = "AG0 F0 AG1 F1 AG2 F2 B2 RS2 AG1 B1 RS1 AG0 B0 RS0"
    assert order("lesson-zero3", "micro_batches=2") == f"{once} {once} OPT"


# A bucket closes when it reaches or passes its size: here with the bias of the layer before.
BUCKETS = f"bucket_bytes={LAYER_BYTES + 1}"


def test_ddp_reduces_buckets_that_reach_into_the_next_layer() -> None:
    plan = plan_of(load_scenario("lesson-ddp", ["layers=4", BUCKETS, "steps=2"]))
    assert plan.order_of(2) == "F0 F1 F2 F3 B3 B2 AR3-2 B1 AR2-1 B0 AR0 OPT"


def test_zero2_cuts_its_gathers_like_its_reductions() -> None:
    assert (
        order("lesson-zero2", "layers=4", BUCKETS)
        == "F0 F1 F2 F3 B3 B2 RS3-2 B1 RS2-1 B0 RS0 OPT AG0-1 AG1-2 AG3"
    )


def test_zero3_reduces_buckets_and_still_gathers_layers() -> None:
    assert (
        order("lesson-zero3", "layers=4", BUCKETS)
        == "AG0 F0 AG1 F1 AG2 F2 AG3 F3 B3 AG2 B2 RS3-2 AG1 B1 RS2-1 AG0 B0 RS0 OPT"
    )


def test_a_bucket_larger_than_the_model_is_reduced_once_at_the_end() -> None:
    assert order("lesson-ddp", "bucket_bytes=1e9") == "F0 F1 F2 B2 B1 B0 AR2-0 OPT"


def test_a_transformer_gathers_its_root_once_and_keeps_it_for_the_backward() -> None:
    words = ["model=gpt", "layers=2", "hidden=8", "heads=2", "vocab=11", "seq=4"]
    assert order("lesson-zero3", *words) == (
        "AGroot Femb AG0 F0 AG1 F1 Fhead Bhead AG1 B1 RS1 AG0 B0 RS0 Bemb RSroot OPT"
    )


def test_several_steps_repeat_the_step() -> None:
    once = order("lesson-zero2")
    assert order("lesson-zero2", "steps=2") == f"{once} {once}"


def test_a_limit_below_its_own_prefetch_is_refused() -> None:
    with pytest.raises(ScenarioError, match=r"schedule\.in_flight is 1 with prefetch 1: give at"):
        order("lesson-zero3", "prefetch=1", "in_flight=1")


def test_a_negative_prefetch_is_refused() -> None:
    with pytest.raises(ScenarioError, match=r"schedule\.prefetch is -1: give 0 or more layers"):
        order("lesson-zero3", "prefetch=-1")


@pytest.mark.parametrize("communicators", [0, 3])
def test_communicators_are_one_or_two(communicators: int) -> None:
    with pytest.raises(ScenarioError, match="give 1 or 2"):
        order("lesson-zero3", f"communicators={communicators}")


@pytest.mark.parametrize("name", list(SCHEDULES))
def test_every_schedule_says_what_it_does(name: str) -> None:
    schedule = SCHEDULES[name]
    assert schedule.summary
    words = [
        word.rstrip("0123456789") for word in order("lesson-zero3", f"schedule={name}").split()
    ]
    assert "OPT" in [word for word, _ in groupby(words)]
