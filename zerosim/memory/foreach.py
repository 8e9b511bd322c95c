"""What an update holds beside the states: torch's foreach optimizers work on all parameters at once.

`torch.optim._multi_tensor_adamw` takes the square roots of all second moments before it uses any,
a temporary as large as the parameters that a rank updates (torch 2.13; its docs: "~ sizeof(params)
more peak memory than the for-loop version"). Fused optimizers have none.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from zerosim.kinds import Kind
from zerosim.plan import Allocation, Op, Plan


def with_update_workspace(plan: Plan, of_states: tuple[int, int]) -> Plan:
    """`plan`, whose updates hold a temporary; `of_states`: its bytes, and those of the optimizer states.

    Both are of one parameter. Updates of a step share the rank's parameters by the bytes they move.
    """
    temporary, kept = of_states
    owned = next((a for a in plan.persistent if a.kind == "optimizer"), None)
    if not temporary or not kept or owned is None:
        return plan
    moved: Counter[int] = Counter()
    for op in plan.ops:
        moved[op.step] += op.memory_bytes if op.kind is Kind.OPTIMIZER else 0

    def with_it(op: Op) -> Op:
        if op.kind is not Kind.OPTIMIZER or not op.memory_bytes:
            return op

        def part(nbytes: int) -> int:
            return nbytes // kept * temporary * op.memory_bytes // moved[op.step]

        by_rank = None
        if owned.by_rank is not None:
            by_rank = tuple((count, part(nbytes)) for count, nbytes in owned.by_rank)
        key = f"workspace.{op.name}"
        allocation = Allocation(key, "workspace", part(owned.nbytes), by_rank)
        return replace(op, allocates=(*op.allocates, allocation), frees=(*op.frees, key))

    return replace(plan, ops=tuple(map(with_it, plan.ops)))
