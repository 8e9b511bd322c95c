"""What real ranks cannot do is refused in one sentence before any of them starts."""

from __future__ import annotations

import pytest

from zerosim.errors import ScenarioError
from zerosim.scenario import load_scenario
from zerosim.schedules import SCHEDULES
from zerosim_runtime.launch import trace
from zerosim_runtime.limits import check_limits

CARRIED_OUT = ("ddp", "zero1", "zero2", "zero3")


@pytest.mark.parametrize("name", CARRIED_OUT)
def test_ddp_and_the_textbook_schedules_are_carried_out(name: str) -> None:
    check_limits(load_scenario("lesson-zero3", [f"schedule={name}"]))


@pytest.mark.parametrize("name", sorted({*SCHEDULES} - {*CARRIED_OUT}))
def test_every_other_schedule_is_refused_before_a_rank_starts(name: str) -> None:
    told: list[str] = []
    with pytest.raises(ScenarioError) as refusal:
        trace(load_scenario("lesson-zero3", [f"schedule={name}"]), nproc=2, progress=told.append)
    assert str(refusal.value) == (
        f"schedule is '{name}', and real ranks cannot carry it out, it is only simulated: "
        "give ddp, zero1, zero2 or zero3"
    )
    assert told == []


@pytest.mark.parametrize(
    ("preset", "words", "message"),
    [
        (
            "mlp",
            ["schedule=zero3"],
            "model is 'parameters', and real ranks cannot build it: give uniform, gpt or llama",
        ),
        (
            "lesson-zero3",
            ["checkpointing=full"],
            "checkpointing is 'full', and real ranks cannot compute activations again: give none",
        ),
        (
            "gpt2-1.5b",
            ["loss=fused"],
            "loss is 'fused', and real ranks cannot compute it so: give eager",
        ),
        (
            "gpt2-1.5b",
            ["compile=true"],
            "compile is 'true', and real ranks cannot compile it: give false",
        ),
        (
            "gpt2-1.5b",
            ["bias=false"],
            "bias is 'false', and real ranks cannot leave biases of a gpt out: give true",
        ),
        (
            "lesson-zero3",
            ["clipping=true"],
            "clipping is 'true', and real ranks cannot clip gradients: give false",
        ),
        (
            "lesson-zero3",
            ["dtype=int8"],
            (
                "dtype is 'int8', and real ranks cannot train in it: "
                "give float64, float32, bfloat16 or float16"
            ),
        ),
        (
            "lesson-zero3",
            ["grad_dtype=int8"],
            (
                "grad_dtype is 'int8', and real ranks cannot train in it: "
                "give float64, float32, bfloat16 or float16"
            ),
        ),
        (
            "lesson-zero3",
            ["optimizer=adam8bit"],
            (
                "optimizer is 'adam8bit', and real ranks cannot step with it: "
                "give sgd, momentum, adam or adamw"
            ),
        ),
        (
            "lesson-zero3",
            ["dtype=bfloat16", "storage_dtype=float32"],
            (
                "storage_dtype is 'float32', and real ranks cannot compute in bfloat16 beside it: "
                "give bfloat16"
            ),
        ),
        (
            "lesson-zero2",
            ["dtype=bfloat16", "reduce_dtype=float32"],
            (
                "reduce_dtype is 'float32', and real ranks cannot cast gradients of bfloat16 to it "
                "with zero2: give bfloat16"
            ),
        ),
    ],
)
def test_what_real_ranks_cannot_do_is_said_with_what_to_give(
    preset: str, words: list[str], message: str
) -> None:
    with pytest.raises(ScenarioError) as refusal:
        check_limits(load_scenario(preset, words))
    assert str(refusal.value) == message


def test_ddp_reduces_in_a_dtype_of_its_own() -> None:
    check_limits(load_scenario("lesson-ddp", ["dtype=bfloat16", "reduce_dtype=float32"]))
