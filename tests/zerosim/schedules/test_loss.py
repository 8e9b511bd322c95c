"""The loss: ops of their own, in every schedule, that no order names."""

from __future__ import annotations

import pytest

from zerosim.errors import ZerosimError
from zerosim.plan import Op
from zerosim.scenario import load_scenario, plan_of
from zerosim.schedules import SCHEDULES

WORDS = ["layers=2", "hidden=8", "heads=2", "vocab=10", "seq=4", "micro_batch=3", "world_size=2"]
LOGITS = 3 * 4 * 10


def losses(*words: str) -> list[Op]:
    plan = plan_of(load_scenario("gpt2-1.5b", [*WORDS, *words]))
    return [op for op in plan.ops if op.name in ("loss", "dloss")]


@pytest.mark.parametrize("schedule", sorted(SCHEDULES))
def test_every_schedule_computes_the_loss_between_the_passes(schedule: str) -> None:
    plan = plan_of(load_scenario("gpt2-1.5b", [*WORDS, f"schedule={schedule}"]))
    names = [op.name for op in plan.ops if op.stream == "compute"]
    forward, backward = names.index("loss"), names.index("dloss")
    assert names[forward - 1].startswith("Fhead")
    assert any(name.startswith("Bhead") for name in names[backward:])
    assert not any(name[0] in "FB" and name[1:].isdigit() for name in names[forward:backward])
    assert "loss" not in plan.order


def test_an_eager_loss_moves_14_bytes_a_logit_and_22_back() -> None:
    forward, backward = losses()
    # bfloat16 to float32 2 + 4; log_softmax 4 + 4. Clear 4, log_softmax 4 + 4 + 4, cast 4 + 2.
    assert (forward.memory_bytes, backward.memory_bytes) == (14 * LOGITS, 22 * LOGITS)
    assert forward.work is not None
    assert backward.work is not None
    assert (forward.work.kernels, backward.work.kernels) == (3, 4)


def test_a_float32_loss_casts_nothing() -> None:
    forward, backward = losses("dtype=float32")
    assert (forward.memory_bytes, backward.memory_bytes) == (8 * LOGITS, 16 * LOGITS)


def test_a_compiled_loss_reads_the_logits_and_writes_their_gradient() -> None:
    forward, backward = losses("compile=true")
    assert (forward.memory_bytes, backward.memory_bytes) == (2 * LOGITS, 4 * LOGITS)


def alive(*words: str) -> list[tuple[str, int]]:
    """Bytes a logit that are there while the loss, its gradient and the head's backward run."""
    plan = plan_of(load_scenario("gpt2-1.5b", [*WORDS, *words]))
    held: dict[str, int] = {}
    found = []
    for op in plan.ops:
        held |= {a.key: a.nbytes for a in op.allocates if a.key.endswith((".head", ".loss"))}
        others = ("activations.head", "workspace.head")
        of_logits = [n for key, n in held.items() if key not in others]
        if op.name in ("Fhead", "loss", "dloss", "Bhead", "B1"):
            found.append((op.name, sum(of_logits) // LOGITS))
        held = {key: n for key, n in held.items() if key not in op.frees}
    return found


@pytest.mark.parametrize(
    ("words", "bytes_a_logit"),
    [
        # Logits 2; a copy and its log_softmax 8; log_softmax, its gradient and the copy's 12.
        ((), [2, 10, 14, 4, 0]),
        # In float32 there is no copy, and no gradient is cast.
        (("dtype=float32",), [4, 8, 16, 8, 0]),
        # The caller holds float32, 4; the model has dropped the logits it was made of.
        (("loss=upcast",), [2, 10, 16, 6, 0]),
        # The gradient of the logits alone.
        (("loss=fused",), [2, 2, 4, 4, 0]),
        (("compile=true",), [2, 2, 4, 4, 0]),
    ],
)
def test_what_a_loss_holds(words: tuple[str, ...], bytes_a_logit: list[int]) -> None:
    names = ("Fhead", "loss", "dloss", "Bhead", "B1")
    assert alive(*words) == list(zip(names, bytes_a_logit, strict=True))


def test_a_loss_of_no_such_kind_is_refused() -> None:
    with pytest.raises(ZerosimError, match=r"loss: 'lazy'|no loss 'lazy'"):
        losses("loss=lazy")


def test_a_model_without_a_cross_entropy_is_told_no_loss() -> None:
    with pytest.raises(ZerosimError, match=r"workload\.loss is eager, but model 'uniform' has no"):
        load_scenario("lesson-zero3", ["loss=eager"])


def test_a_model_without_logits_has_no_loss() -> None:
    plan = plan_of(load_scenario("lesson-zero3"))
    assert all(op.name not in ("loss", "dloss") for op in plan.ops)
