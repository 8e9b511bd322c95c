"""Every schedule says how its gradient buckets fill: reduce-scatter inputs, IPG buffers, chunks too."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from zerosim.analysis.buckets import BucketFill, bucket_fills
from zerosim.analysis.steps import only_step
from zerosim.scenario import load_scenario, run
from zerosim.schedules import SCHEDULES

LAYER = 768 * 768 + 768
MODEL = 3 * LAYER * 4
"""Bytes of the lesson's gradients."""


def fills(schedule: str, *words: str) -> tuple[BucketFill, ...]:
    """What the buckets of rank 0 hold in step 2."""
    trace = run(load_scenario("lesson-zero3", [f"schedule={schedule}", "steps=2", *words]))
    return bucket_fills(only_step(trace, 2), 0)


def taken(found: Iterable[BucketFill]) -> list[int]:
    """Bytes in each bucket whenever a collective takes it, by bucket."""
    return [
        fill.nbytes[i - 1]
        for fill in found
        for i, level in enumerate(fill.nbytes)
        if level == 0 and i
    ]


@pytest.mark.parametrize("schedule", list(SCHEDULES))
@pytest.mark.parametrize("micro_batches", [1, 2])
def test_every_gradient_waits_in_a_bucket_until_it_is_sent(
    schedule: str, micro_batches: int
) -> None:
    found = fills(schedule, f"micro_batches={micro_batches}")
    assert {fill.nbytes[-1] for fill in found} == {0}
    assert sum(taken(found)) % MODEL == 0
    assert sum(taken(found)) >= MODEL


def test_fsdp2_fills_the_input_of_each_reduce_scatter() -> None:
    assert taken(fills("fsdp2")) == [4 * LAYER] * 3


def test_deepspeed_2_fills_the_ipg_buffer_layer_by_layer() -> None:
    (fill,) = fills("deepspeed-2")
    assert fill.nbytes == (4 * LAYER, 8 * LAYER, 12 * LAYER, 0)


def test_a_gradient_that_no_ipg_buffer_takes_waits_only_while_it_is_sent() -> None:
    whole = fills("deepspeed-2", "contiguous_gradients=false")
    assert taken(whole) == [MODEL]


def test_gemini_fills_its_chunk_and_megatron_its_buffer() -> None:
    for schedule in ("gemini", "megatron"):
        (fill,) = fills(schedule)
        assert fill.nbytes == (4 * LAYER, 8 * LAYER, 12 * LAYER, 0)


def test_what_a_later_micro_batch_adds_makes_megatrons_buffer_no_fuller() -> None:
    (fill,) = fills("megatron", "micro_batches=3")
    assert max(fill.nbytes) == MODEL
