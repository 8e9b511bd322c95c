"""DeepSpeed ZeRO-3: what a rank holds, when it takes more, and for how long."""

from __future__ import annotations

from tests.zerosim.schedules.deepspeed3.models import P, model, on_demand, plan
from zerosim.plan import Allocation, Op, Plan

BF16 = 2


def allocated(made: Plan, kind: str, step: int) -> dict[str, list[int]]:
    """Bytes of a kind that each op of a step takes, by the op's name."""
    taken: dict[str, list[int]] = {}
    for op in made.ops:
        if op.step == step:
            for allocation in op.allocates:
                if allocation.kind == kind:
                    taken.setdefault(op.name, []).append(allocation.nbytes)
    return taken


def freed_by(made: Plan, owner: str, step: int) -> list[str]:
    """The names of the ops that free what the first op called `owner` in a step takes."""
    (first, *_) = (op for op in made.ops if op.name == owner and op.step == step)
    keys = {allocation.key for allocation in first.allocates}
    later: list[Op] = [op for op in made.ops if op.id > first.id]
    return [next(op.name for op in later if key in op.frees) for key in sorted(keys)]


def test_a_rank_holds_its_shards_its_gradient_shards_and_the_whole_bucket() -> None:
    shard = 3 * P // 2
    assert plan().persistent == (
        Allocation("parameters", "parameters", shard * BF16),
        Allocation("optimizer", "optimizer", shard * 12),
        Allocation("gradients", "gradients", shard * BF16),
        Allocation("bucket", "buckets", 500_000_000 * BF16),  # 1 GB, whatever the model
    )


def test_gradient_shards_may_be_kept_in_float32_and_the_bucket_left_out() -> None:
    held = plan(grad_accum_dtype="fp32", contiguous_gradients=False).persistent
    assert held[2:] == (Allocation("gradients", "gradients", 3 * P // 2 * 4),)


def test_one_parameter_is_gathered_into_its_own_memory_and_dropped_after_its_layer() -> None:
    made = plan(**on_demand())
    assert allocated(made, "gathered", 3)["AG0"] == [P * BF16, P * BF16]  # forward and backward
    assert freed_by(made, "AG0", 3) == ["F0"]
    assert freed_by(made, "AG2", 3) == ["B2"]  # the reuse distance keeps it


def test_several_parameters_are_there_twice_until_the_last_of_their_modules_has_come() -> None:
    made = plan()  # all three layers in one gather
    taken = allocated(made, "gathered", 3)
    assert taken["pack0-2"] == [3 * P * BF16]
    assert taken["copy0-2"] == [P * BF16] * 3
    assert freed_by(made, "pack0-2", 3) == ["F2"]
    assert freed_by(made, "copy0-2", 3) == ["waitreduce", "B1", "B2"]


def test_a_full_gradient_lives_until_it_is_in_the_bucket() -> None:
    made = plan(**on_demand(reduce_bucket_size=P))
    assert allocated(made, "gradients", 3)["B1"] == [P * BF16]
    assert freed_by(made, "B1", 3) == ["fill1"]


def test_a_lone_gradient_that_divides_is_reduced_in_place_and_others_are_copied_flat() -> None:
    assert "flatten2" not in allocated(plan(**on_demand(reduce_bucket_size=P)), "buckets", 3)
    assert allocated(plan(**on_demand()), "buckets", 3)["flatten2-0"] == [3 * P * BF16]


def test_the_update_takes_a_float32_copy_of_the_gradients_of_one_sub_group() -> None:
    assert allocated(plan(), "gradients", 3)["cast"] == [3 * P // 2 * 4]
    halves = allocated(plan(sub_group_size=P // 2), "gradients", 3)
    assert [halves[f"cast{i}"] for i in range(3)] == [[P // 2 * 4]] * 3


def test_a_first_layer_on_data_is_only_dropped_once_its_gradients_are_reduced() -> None:
    made = plan(model(2), **on_demand())
    backward = [op for op in made.ops if op.step == 3 and op.name in ("B1", "B0")]
    assert [[key for key in op.frees if "parameter" in key] for op in backward] == [
        ["parameter.1"],
        [],
    ]
    (wait,) = (op for op in made.ops if op.step == 3 and op.name == "waitreduce")
    assert wait.frees == ("parameter.0",)
