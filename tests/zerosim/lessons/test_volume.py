"""What a step sends: the closed form from the plan, the bytes from the run, and they agree."""

from __future__ import annotations

import polars as pl
import pytest

from zerosim.lessons.volume import Volume, volume
from zerosim.scenario import load_scenario, plan_of, run
from zerosim.trace import Trace

LAYER = 768 * 768 + 768


def of(preset: str, *words: str) -> Volume:
    scenario = load_scenario(preset, words)
    return volume(plan_of(scenario), run(scenario))


def test_three_ranks_send_two_thirds_of_eight_layers() -> None:
    assert of("lesson-zero3") == Volume(
        formula="(3Ψ - P_last)(N - 1)/N",
        n_elements=3 * LAYER,
        last_elements=LAYER,
        n_ranks=3,
        element_bytes=4,
        closed_bytes=8 * LAYER * 2 * 4 // 3,
        sent_bytes=8 * LAYER * 2 * 4 // 3,
    )


def test_without_the_kept_layer_it_is_three_psi() -> None:
    sent = of("lesson-zero3", "keep_last=false")
    assert sent.formula == "3Ψ(N - 1)/N"
    assert sent.last_elements is None
    assert sent.sent_bytes == sent.closed_bytes == 9 * LAYER * 2 * 4 // 3


@pytest.mark.parametrize("preset", ["lesson-ddp", "lesson-zero1", "lesson-zero2"])
@pytest.mark.parametrize("n_ranks", [2, 3, 4])
def test_the_others_send_two_psi_at_any_size(preset: str, n_ranks: int) -> None:
    sent = of(preset, f"world_size={n_ranks}")
    assert sent.formula == "2Ψ(N - 1)/N"
    assert sent.sent_bytes == sent.closed_bytes == 6 * LAYER * (n_ranks - 1) * 4 // n_ranks


@pytest.mark.parametrize("n_ranks", [2, 4, 8])
def test_sizes_that_do_not_divide_are_counted_with_their_padding(n_ranks: int) -> None:
    sent = of("lesson-zero3", "hidden=5", f"world_size={n_ranks}")
    padded = -(-25 // n_ranks) * n_ranks + -(-5 // n_ranks) * n_ranks
    assert sent.n_elements == 3 * padded
    assert sent.sent_bytes == sent.closed_bytes


def test_only_the_last_step_counts() -> None:
    assert of("lesson-zero3", "steps=3") == of("lesson-zero3")


def test_a_run_that_does_not_know_what_it_sent_says_so() -> None:
    scenario = load_scenario("lesson-zero3")
    trace = run(scenario)
    mute = trace.spans.with_columns(wire_bytes=pl.lit(None, dtype=pl.Int64))
    found = volume(plan_of(scenario), Trace(mute, trace.samples, trace.meta))
    assert found.sent_bytes is None
    assert found.closed_bytes == 12_599_296


def test_a_single_rank_sends_nothing() -> None:
    sent = of("lesson-zero3", "world_size=1")
    assert (sent.closed_bytes, sent.sent_bytes) == (0, 0)
