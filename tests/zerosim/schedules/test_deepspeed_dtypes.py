"""DeepSpeed's names of dtypes, and the one that gradients travel in."""

from __future__ import annotations

import pytest

from zerosim.errors import ScenarioError
from zerosim.numerics import Numerics
from zerosim.schedules.deepspeed_dtypes import check_dtypes, communication_dtype


def test_gradients_travel_in_the_dtype_of_the_run_unless_told_otherwise() -> None:
    plain, accumulated = Numerics("bfloat16", "bfloat16"), Numerics("bfloat16", "float32")
    reduced = Numerics("bfloat16", "bfloat16", reduce_dtype="float32")
    assert communication_dtype(None, plain) == "bfloat16"
    assert communication_dtype(None, accumulated) == "bfloat16"
    assert communication_dtype(None, reduced) == "float32"
    assert communication_dtype("fp32", plain) == "float32"


def test_torchs_names_are_not_deepspeeds() -> None:
    check_dtypes("bf16", None)
    with pytest.raises(ScenarioError) as refusal:
        check_dtypes("fp16", "bfloat16")
    assert str(refusal.value) == (
        "schedule.grad_accum_dtype is 'bfloat16': DeepSpeed takes fp32, fp16, bf16"
    )
