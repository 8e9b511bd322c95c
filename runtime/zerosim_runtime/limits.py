"""What real ranks cannot do, and what to give instead: said before any rank starts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from zerosim.errors import ScenarioError
from zerosim.scenario import Scenario, numerics_of

SCHEDULES: Final = ("ddp", "zero1", "zero2", "zero3")
"""Those whose every op a real rank can carry out."""
MODELS: Final = ("uniform", "gpt", "llama")
DTYPES: Final = ("float64", "float32", "bfloat16", "float16")
OPTIMIZERS: Final = ("sgd", "momentum", "adam", "adamw")


def check_limits(scenario: Scenario) -> None:
    """Refuse a scenario that real ranks cannot carry out. Raises ScenarioError."""
    workload, schedule, numerics = scenario.workload, scenario.schedule, numerics_of(scenario)
    width, made = numerics.dtype, numerics.grad_dtype
    _check("model", workload.model, MODELS, "build it")
    _check("schedule", schedule.name, SCHEDULES, "carry it out, it is only simulated")
    _check("checkpointing", workload.checkpointing, ("none",), "compute activations again")
    _check("loss", workload.loss or "eager", ("eager",), "compute it so")
    _check("compile", _word(workload.compile), ("false",), "compile it")
    if workload.model == "gpt":
        _check("bias", _word(workload.bias is not False), ("true",), "leave biases of a gpt out")
    _check("dtype", width, DTYPES, "train in it")
    _check("grad_dtype", made, DTYPES, "train in it")
    _check("optimizer", numerics.optimizer, OPTIMIZERS, "step with it")
    _check("foreach", _word(numerics.foreach), ("false",), "book what it works with")
    _check("clipping", _word(numerics.clipping), ("false",), "clip gradients")
    _check("storage_dtype", numerics.storage_dtype, (width,), f"compute in {width} beside it")
    if schedule.name != "ddp":
        reason = f"cast gradients of {made} to it with {schedule.name}"
        _check("reduce_dtype", numerics.reduce_dtype, (made,), reason)


def _word(value: bool) -> str:
    return str(value).lower()


def _check(field: str, value: str, possible: Sequence[str], cannot: str) -> None:
    if value in possible:
        return
    *others, last = possible
    remedy = f"{', '.join(others)} or {last}" if others else last
    raise ScenarioError(f"{field} is '{value}', and real ranks cannot {cannot}: give {remedy}")
