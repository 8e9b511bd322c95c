"""What each op of a plan means for real tensors: gather, fill, reduce, update."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import torch

from zerosim.errors import RuntimeFailedError
from zerosim.kinds import Kind
from zerosim.plan import Op
from zerosim.schedules import bucket as share
from zerosim_runtime import averaging
from zerosim_runtime.layout import Lane, Slot
from zerosim_runtime.optimizer import update
from zerosim_runtime.progress import Rank, issue, settle


def carry_out(rank: Rank, op: Op) -> None:
    """Do an op that the model's own code does not do. Raises RuntimeFailedError for an unknown one."""
    if op.kind not in _ACTIONS:
        raise RuntimeFailedError(
            f"op '{op.name}' is a '{op.kind}', which no real rank can do: give another schedule"
        )
    _ACTIONS[op.kind](rank, op)


def make_gradients(rank: Rank, op: Op) -> None:
    """Allocate the gradient memory that a backward op names, and say where each gradient goes."""
    if rank.layout.in_place:
        averaging.begin_gradients(rank, op)
        return
    named = {allocation.key: allocation for allocation in op.allocates}
    for lane in rank.layout.gradients:
        for part in lane.bucket.parts:
            allocation = named.get(share.gradient(part, lane.bucket))
            if allocation is not None:
                slots = lane.of_unit(part.unit)
                elements = sum(slot.piece.row for slot in slots) * rank.layout.shards
                memory = rank.memory.new(allocation, elements, rank.grad_dtype, zero=True)
                for slot in slots:
                    start = (slot.offset - slots[0].offset) * rank.layout.shards
                    end = start + slot.piece.row * rank.layout.shards
                    rank.gradients[slot.piece.unit, slot.piece.index] = memory[start:end]


def add_gradient(target: torch.Tensor, parameter: torch.Tensor) -> None:
    """Move a parameter's gradient into its memory, on top of what earlier micro-batches left."""
    if parameter.grad is not None:
        target[: parameter.numel()].add_(parameter.grad.reshape(-1))
        parameter.grad = None


def _fill(rank: Rank, op: Op) -> None:
    """Put one unit's gradients into their bucket, by rank, each divided by the number of ranks."""
    if rank.layout.in_place:
        averaging.fill(rank, op)
        return
    lane = _lane(rank.layout.gradients, op)
    row = rank.recorder.begin(op.id)
    row.start = rank.recorder.moment()
    for allocation in op.allocates:
        rank.memory.new(allocation, lane.row * rank.layout.shards, rank.grad_dtype)
    for slot in lane.of_unit(rank.layout.units.index(str(op.unit))):
        gradient = rank.gradients[slot.piece.unit, slot.piece.index]
        target = _place(rank, lane, slot)
        torch.mul(gradient.view(target.shape), 1 / rank.n_ranks, out=target)
        if op.frees:
            del rank.gradients[slot.piece.unit, slot.piece.index]
    row.end = rank.recorder.moment()
    for key in op.frees:
        rank.memory.drop(key)


def _place(rank: Rank, lane: Lane, slot: Slot) -> torch.Tensor:
    bucket = rank.memory.tensors[lane.buffer]
    end = slot.offset + slot.piece.row
    return bucket.view(rank.layout.shards, lane.row)[:, slot.offset : end]


def _reduce_scatter(rank: Rank, op: Op) -> None:
    """Leave this rank its row of the bucket; what an earlier micro-batch left is part of the sum."""
    lane = _lane(rank.layout.gradients, op)
    bucket = rank.memory.tensors[lane.buffer]
    if op.allocates:
        shard = rank.memory.new(op.allocates[0], lane.row, rank.grad_dtype)
    else:
        settle(rank, tuple(p.op.id for p in rank.pending if p.op.bucket == op.bucket))
        shard = rank.memory.tensors[lane.reduced]
        bucket.view(rank.layout.shards, lane.row)[rank.weights.rank].add_(shard)
    issue(rank, op, shard, bucket, lambda: None)
    for freed in op.frees:
        # The collective keeps the bucket until it has ended; only our name for it goes.
        rank.memory.drop(freed)


def _all_gather(rank: Rank, op: Op) -> None:
    if op.bucket is None:
        _gather_unit(rank, op)
    else:
        _gather_bucket(rank, op)


def _gather_unit(rank: Rank, op: Op) -> None:
    """Bring a unit's parameters to life; rows arrive by rank, and are copied once they are wanted."""
    unit = rank.layout.units.index(str(op.unit))
    gathered, through = op.allocates
    rank.memory.refill(gathered, rank.weights.whole[unit])
    source = rank.weights.shards[unit]
    rows = rank.memory.new(through, rank.layout.shards * source.numel(), source.dtype)
    issue(rank, op, rows, source, lambda: None)


def _copy(rank: Rank, op: Op) -> None:
    """Put a gathered unit's parameters together; what the op frees are its rows."""
    if rank.layout.in_place:
        averaging.copy_back(rank, op)
        return
    row = rank.recorder.begin(op.id)
    settle(rank, op.after)
    row.start = rank.recorder.moment()
    unit, shards = rank.layout.units.index(str(op.unit)), rank.layout.shards
    (key,) = op.frees
    rows = rank.memory.tensors[key].view(shards, -1)
    for piece in rank.layout.pieces[unit]:
        arrived = rows[:, piece.offset : piece.offset + piece.row]
        rank.weights.region(piece).view(shards, piece.row).copy_(arrived)
    row.end = rank.recorder.moment()
    rank.memory.drop(key)


def _gather_bucket(rank: Rank, op: Op) -> None:
    """After the update: every rank's rows of the parameters, back into the whole parameters.

    What the op frees are buffers of gathers, perhaps its own, that must have ended.
    """
    lane = _lane(rank.layout.gathers, op)
    dtype, shards = rank.weights.whole[0].dtype, rank.layout.shards
    through, given = op.allocates
    rows = rank.memory.new(through, shards * lane.row, dtype)
    source = rank.memory.new(given, lane.row, dtype, zero=True)
    for slot in lane.slots:
        own = rank.weights.own(slot.piece)
        source[slot.offset : slot.offset + own.numel()].copy_(own)

    def put_together() -> None:
        for slot in lane.slots:
            arrived = rows.view(shards, -1)[:, slot.offset : slot.offset + slot.piece.row]
            rank.weights.region(slot.piece).copy_(arrived.reshape(-1)[: slot.piece.numel])

    issue(rank, op, rows, source, put_together)
    settle(rank, (op.id,) if through.key in op.frees else op.after)
    for key in op.frees:
        rank.memory.drop(key)


def _optimizer(rank: Rank, op: Op) -> None:
    row = rank.recorder.begin(op.id)
    settle(rank, op.after)
    row.start = rank.recorder.moment()
    owned = {(o.piece.unit, o.piece.index): o for o in rank.optimizer.owned}
    for whole, gradient in rank.gradients.items() if rank.layout.in_place else ():
        update(rank.optimizer, owned[whole], gradient, op.step)
    for lane in rank.layout.gradients:
        reduced = rank.memory.tensors[lane.reduced]
        for slot in lane.slots:
            gradient = reduced[slot.offset : slot.offset + slot.piece.row]
            update(rank.optimizer, owned[slot.piece.unit, slot.piece.index], gradient, op.step)
    row.end = rank.recorder.moment()
    for key in op.frees:
        rank.memory.drop(key)
    rank.gradients.clear()


def _lane(lanes: tuple[Lane, ...], op: Op) -> Lane:
    return next(lane for lane in lanes if lane.bucket.index == op.bucket)


_ACTIONS: Final[dict[Kind, Callable[[Rank, Op], None]]] = {
    Kind.ALL_GATHER: _all_gather,
    Kind.REDUCE_SCATTER: _reduce_scatter,
    Kind.ALL_REDUCE: averaging.all_reduce,
    Kind.BROADCAST: averaging.agree,
    Kind.COPY: _copy,
    Kind.FILL: _fill,
    Kind.OPTIMIZER: _optimizer,
}
