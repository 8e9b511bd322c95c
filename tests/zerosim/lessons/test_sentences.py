"""Sentences: one a step, true of the step, with its numbers."""

from __future__ import annotations

import pytest

from zerosim.kinds import Kind
from zerosim.lessons import LESSONS, State, lesson


def said(name: str, op: str, nth: int = 0) -> str:
    found = [s for s in lesson(name).states if s.name == op]
    return found[nth].sentence


def test_before_the_step_the_holdings_are_told() -> None:
    assert said("zero3", "before") == (
        "Before the step each rank holds its shard, one part in 3, of the parameters (2.36 MB) and "
        "one part in 3 of the optimizer states (4.72 MB)."
    )
    assert "a full copy of the parameters (7.09 MB) and a full copy" in said("ddp", "before")


def test_the_first_gather_is_for_a_moment_and_the_second_is_explained() -> None:
    assert said("zero3", "AG1") == (
        "All-gather: each rank sends its shard of layer 1 (787 kB) to the others; for a moment all "
        "hold the whole layer (2.36 MB)."
    )
    assert said("zero3", "AG1", nth=1) == (
        "All-gather, once more: the full layer 1 was freed after its forward, but its backward "
        "needs it, so each rank sends its shard (787 kB) again."
    )


def test_a_gather_after_the_update_is_for_good() -> None:
    assert said("zero2", "AG0").endswith("all hold the whole of it again (2.36 MB), for good.")


def test_the_forward_says_whether_the_weights_go_or_stay() -> None:
    assert said("zero3", "F0").endswith(
        "Then the full weights are freed: only the own shard stays."
    )
    assert said("zero3", "F2").endswith("since the backward of this layer needs them next.")
    assert "freed" not in said("zero2", "F0")


def test_the_backward_says_why_it_needs_the_weights() -> None:
    assert said("zero3", "B1") == (
        "Backward of layer 1: dW = Xᵀ·dY are its gradients (2.36 MB); dX = dY·Wᵀ needs the full "
        "weights. Then they are freed."
    )


def test_the_reduction_says_what_is_dropped() -> None:
    assert said("zero3", "RS2") == (
        "Reduce-scatter: the gradients of layer 2 (2.36 MB) are summed over the 3 ranks; each keeps "
        "its part of the sum (787 kB), and the rest is dropped."
    )
    assert said("zero1", "RS2").endswith("and its whole local gradients stay too.")
    assert said("ddp", "AR2").endswith("and each rank gets the whole sum (2.36 MB).")


def test_the_update_says_what_follows() -> None:
    assert "No all-gather follows" in said("zero3", "OPT")
    assert "out of date until they are gathered" in said("zero2", "OPT")
    assert said("ddp", "OPT").endswith("all alike.")


def test_after_the_step_it_is_as_before() -> None:
    assert said("zero3", "after") == (
        "After the step each rank holds what it held before, 7.09 MB, one update further on."
    )


@pytest.mark.parametrize("name", list(LESSONS))
def test_every_state_has_a_sentence_that_names_its_layer(name: str) -> None:
    for state in lesson(name).states:
        assert state.sentence.endswith(".")
        assert "unknown" not in state.sentence
        assert _named(state)


def _named(state: State) -> bool:
    whole = state.kind is None or state.kind is Kind.OPTIMIZER
    return whole or f"layer {state.unit}" in state.sentence
