"""One sentence a step: a template per kind of op, filled with bytes computed from the plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from zerosim.kinds import Kind
from zerosim.lessons.cells import Held
from zerosim.plan import Op, Plan
from zerosim.units import format_bytes


@dataclass(frozen=True, slots=True)
class Story:
    """What a sentence needs to know of the whole plan; `made` is the memory kind of every key."""

    n_ranks: int
    first: Held
    made: Mapping[str, str]
    gathers: Mapping[int, int]
    sharded: bool
    owns_all: bool
    drops: bool


def story(plan: Plan, first: Held, step: int) -> Story:
    """What `plan` is like, given what a rank holds before the step."""
    counts: dict[str | None, int] = {}
    gathers: dict[int, int] = {}
    for op in plan.ops:
        if op.step == step and op.kind is Kind.ALL_GATHER:
            counts[op.unit] = counts.get(op.unit, 0) + 1
            gathers[op.id] = counts[op.unit]
    made = {a.key: a.kind for op in plan.ops for a in op.allocates}
    copies = [op for op in plan.ops if op.kind is Kind.FILL]
    fills = {(column, fill) for (column, _), fill in first.cells.items()}
    return Story(
        n_ranks=plan.world_size,
        first=first,
        made=made,
        gathers=gathers,
        sharded=("parameters", "shard") in fills,
        owns_all=("optimizer", "full") in fills,
        drops=any(made.get(key) == "gradients" for op in copies for key in op.frees),
    )


def before(told: Story) -> str:
    """The state before the first op."""
    part = f"its shard, one part in {told.n_ranks}," if told.sharded else "a full copy"
    states = "a full copy" if told.owns_all else f"one part in {told.n_ranks}"
    return (
        f"Before the step each rank holds {part} of the parameters "
        f"({format_bytes(told.first.nbytes['parameters'])}) and {states} of the optimizer states "
        f"({format_bytes(told.first.nbytes['optimizer'])})."
    )


def after(told: Story, last: Held) -> str:
    """The state after the last op."""
    total = format_bytes(sum(last.nbytes.values()))
    if last.nbytes == told.first.nbytes:
        return (
            f"After the step each rank holds what it held before, {total}, one update further on."
        )
    return f"After the step each rank holds {total}."


def during(told: Story, held: Held, op: Op) -> str:
    """The state while `op` runs."""
    tell = _TELLERS.get(op.kind)
    return tell(told, held, op) if tell else f"{op.name} runs."


def aside(told: Story, op: Op) -> str:
    """`free` or `keep`: what becomes of a gathered layer after the op; empty if there is none."""
    if not told.sharded or op.kind not in (Kind.FORWARD, Kind.BACKWARD):
        return ""
    return "free" if _frees(told, op, "gathered") else "keep"


def _gather(told: Story, _: Held, op: Op) -> str:
    whole, shard = _whole(op), _shard(told, op)
    if not told.sharded:
        return (
            f"All-gather after the update: each rank sends its updated part of {_layer(op)} "
            f"({shard}), and all hold the whole of it again ({whole}), for good."
        )
    if told.gathers[op.id] > 1:
        return (
            f"All-gather, once more: the full {_layer(op)} was freed after its forward, but its "
            f"backward needs it, so each rank sends its shard ({shard}) again."
        )
    return (
        f"All-gather: each rank sends its shard of {_layer(op)} ({shard}) to the others; "
        f"for a moment all hold the whole layer ({whole})."
    )


def _forward(told: Story, _: Held, op: Op) -> str:
    kept = format_bytes(sum(a.nbytes for a in op.allocates if a.kind == "activations"))
    text = f"Forward of {_layer(op)}; its activations ({kept}) are kept for the backward."
    if not told.sharded:
        return text
    if _frees(told, op, "gathered"):
        return f"{text} Then the full weights are freed: only the own shard stays."
    return f"{text} The full weights stay too, since the backward of this layer needs them next."


def _backward(told: Story, _: Held, op: Op) -> str:
    made = format_bytes(sum(a.nbytes for a in op.allocates if a.kind == "gradients"))
    text = (
        f"Backward of {_layer(op)}: dW = Xᵀ·dY are its gradients ({made}); "
        "dX = dY·Wᵀ needs the full weights."
    )
    return f"{text} Then they are freed." if _frees(told, op, "gathered") else text


def _reduce_scatter(told: Story, _: Held, op: Op) -> str:
    rest = "the rest is dropped" if told.drops else "its whole local gradients stay too"
    return (
        f"Reduce-scatter: the gradients of {_layer(op)} ({_whole(op)}) are summed over the "
        f"{told.n_ranks} ranks; each keeps its part of the sum ({_shard(told, op)}), and {rest}."
    )


def _all_reduce(told: Story, _: Held, op: Op) -> str:
    return (
        f"All-reduce: the gradients of {_layer(op)} are summed over the {told.n_ranks} ranks, "
        f"and each rank gets the whole sum ({_whole(op)})."
    )


def _update(told: Story, _: Held, __: Op) -> str:
    states = format_bytes(told.first.nbytes["optimizer"])
    if told.owns_all:
        return f"Update: each rank steps every parameter with its optimizer states ({states}), all alike."
    text = f"Update: each rank steps its own part with its gradient part and optimizer states ({states})."
    if told.sharded:
        return f"{text} No all-gather follows: the next forward gathers layer by layer."
    return f"{text} The other parts of the weights are out of date until they are gathered."


def _layer(op: Op) -> str:
    unit = op.unit or "the model"
    return f"layers {unit}" if "-" in unit else f"layer {unit}"


def _whole(op: Op) -> str:
    return format_bytes(op.nbytes)


def _shard(told: Story, op: Op) -> str:
    return format_bytes(None if op.nbytes is None else op.nbytes // told.n_ranks)


def _frees(told: Story, op: Op, kind: str) -> bool:
    return any(told.made.get(key) == kind for key in op.frees)


_TELLERS: Final = {
    Kind.ALL_GATHER: _gather,
    Kind.FORWARD: _forward,
    Kind.BACKWARD: _backward,
    Kind.REDUCE_SCATTER: _reduce_scatter,
    Kind.ALL_REDUCE: _all_reduce,
    Kind.OPTIMIZER: _update,
}
