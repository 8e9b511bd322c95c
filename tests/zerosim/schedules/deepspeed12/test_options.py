"""What DeepSpeed refuses, in its own words, and how dtypes are found."""

from __future__ import annotations

import pytest

from tests.zerosim.schedules.deepspeed12.models import layers_of, plan
from zerosim.errors import ScenarioError, UnknownNameError
from zerosim.numerics import Numerics
from zerosim.scenario import load_scenario


def scenario(*words: str) -> None:
    load_scenario("lesson-zero3", ("schedule=deepspeed-2", *words))


def test_a_bucket_of_nothing_is_refused() -> None:
    with pytest.raises(ScenarioError, match="greater than 0"):
        scenario("reduce_bucket_size=0")


def test_an_odd_gather_bucket_is_refused_though_nothing_reads_it() -> None:
    with pytest.raises(ScenarioError, match="multiple of nccl_start_alignment_factor, 2"):
        scenario("allgather_bucket_size=3")
    scenario("allgather_bucket_size=4")


def test_a_dtype_that_deepspeed_does_not_name_is_refused() -> None:
    with pytest.raises(ScenarioError, match="DeepSpeed takes fp32, fp16, bf16"):
        scenario("communication_data_type=float32")


def test_a_knob_of_another_stage_is_refused_by_name() -> None:
    with pytest.raises(UnknownNameError, match="stage3_prefetch_bucket_size"):
        scenario("schedule.stage3_prefetch_bucket_size=1")


@pytest.mark.parametrize(
    ("stage", "numerics", "reason"),
    [
        (2, Numerics("float64", "float64"), "DeepSpeed trains in"),
        (2, Numerics("bfloat16", "bfloat16", storage_dtype="float32"), "as they compute"),
        (2, Numerics("bfloat16", "float16"), "bfloat16 or float32"),
        (1, Numerics("bfloat16", "float32"), "BF16_Optimizer"),
    ],
)
def test_dtypes_that_it_does_not_run_are_refused(
    stage: int, numerics: Numerics, reason: str
) -> None:
    with pytest.raises(ScenarioError, match=reason):
        plan(stage, layers_of(4), numerics=numerics)


def test_accumulation_in_float32_can_be_asked_for_in_either_place() -> None:
    knob = plan(2, layers_of(4, 8), numerics=Numerics(), grad_accum_dtype="fp32")
    section = plan(2, layers_of(4, 8), numerics=Numerics("bfloat16", "float32"))
    assert knob == section
