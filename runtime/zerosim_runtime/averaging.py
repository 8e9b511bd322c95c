"""What DDP's ops mean for real tensors: gradients into buckets, their average, and back; new buckets."""

from __future__ import annotations

import torch

from zerosim.errors import RuntimeFailedError
from zerosim.plan import Op, Plan
from zerosim.schedules.ddp import BUFFER
from zerosim.schedules.reducer import gradients_key
from zerosim_runtime.progress import Rank, issue, settle
from zerosim_runtime.replicas import Place, Reduction, reduction_at


def hold_buffer(rank: Rank, plan: Plan, dtype: torch.dtype) -> None:
    """Take the memory of all buckets for good, if the plan has any."""
    for allocation in plan.persistent:
        if allocation.key == BUFFER:
            elements = allocation.nbytes // dtype.itemsize
            rank.buffer = rank.memory.new(allocation, elements, dtype)
            rank.views = allocation.kind == "gradients"


def begin_gradients(rank: Rank, op: Op) -> None:
    """Zeroed memory for the gradients that a backward op begins; without any, they are in the buffer."""
    reduction = reduction_at(rank.layout.reductions, op)
    stretches = {gradients_key(i): places for i, places in enumerate(reduction.stretches)}
    for allocation in op.allocates:
        if allocation.key in stretches:
            places = stretches[allocation.key]
            elements = sum(place.end - place.start for place in places)
            memory = rank.memory.new(allocation, elements, rank.grad_dtype, zero=True)
            for place in places:
                start = place.start - places[0].start
                rank.gradients[place.key] = memory[start : start + place.end - place.start]
    if not rank.gradients:
        _buffer(rank).zero_()
        rank.gradients = {place.key: _in_buffer(rank, place) for place in reduction.places}


def fill(rank: Rank, op: Op) -> None:
    """Put gradients into their bucket, each divided by the number of ranks."""
    row = rank.recorder.begin(op.id)
    row.start = rank.recorder.moment()
    for place in reduction_at(rank.layout.reductions, op).fills[op.id]:
        target = _in_buffer(rank, place)
        torch.mul(rank.gradients[place.key], 1 / rank.n_ranks, out=target)
        if rank.views:
            rank.gradients[place.key] = target
    row.end = rank.recorder.moment()
    for key in op.frees:
        rank.memory.drop(key)


def all_reduce(rank: Rank, op: Op) -> None:
    """Sum a bucket over the ranks; an op without one sums a map of the parameters a rank has used."""
    if op.bucket is None:
        source = torch.ones(op.elements or 0, dtype=torch.int32, device=rank.memory.device)
    else:
        start, end = reduction_at(rank.layout.reductions, op).buckets[op.bucket]
        source = _buffer(rank)[start:end]
    issue(rank, op, source, source, lambda: None)


def copy_back(rank: Rank, op: Op) -> None:
    """Copy a bucket's averages into the gradients that are no views of it."""
    row = rank.recorder.begin(op.id)
    settle(rank, op.after)
    row.start = rank.recorder.moment()
    reduction = reduction_at(rank.layout.reductions, op)
    for place in reduction.of_bucket(-1 if op.bucket is None else op.bucket):
        rank.gradients[place.key].copy_(_in_buffer(rank, place))
    row.end = rank.recorder.moment()


def agree(rank: Rank, op: Op) -> None:
    """Rank 0 says which parameters the new buckets have, or how many; all must have the same in mind."""
    settle(rank, op.after)
    reduction = reduction_at(rank.layout.reductions, op)
    order, sizes = _contents(reduction)
    mine = order if op.elements == len(order) else sizes
    if mine is sizes and rank.views and rank.gradients:
        _move(rank, reduction)
    own = torch.tensor(mine, dtype=torch.int32, device=rank.memory.device)
    said = own.clone()

    def check() -> None:
        if not torch.equal(own, said):
            raise RuntimeFailedError(
                f"'{op.name}': rank 0 makes other buckets than this rank: give all the same plan"
            )

    issue(rank, op, said, said, check)


def _contents(reduction: Reduction) -> tuple[list[int], list[int]]:
    """Parameters bucket by bucket and the number of buckets, and the number of parameters of each."""
    numbers = {key: i for i, key in enumerate(sorted(place.key for place in reduction.places))}
    by_bucket = [reduction.of_bucket(bucket) for bucket in sorted(reduction.buckets)]
    order = [numbers[place.key] for places in by_bucket for place in places]
    return [*order, len(by_bucket)], [len(places) for places in by_bucket]


def _move(rank: Rank, reduction: Reduction) -> None:
    """Gradients that are views move to their place in the new buckets."""
    before = {key: gradient.clone() for key, gradient in rank.gradients.items()}
    for place in reduction.places:
        rank.gradients[place.key] = _in_buffer(rank, place)
        rank.gradients[place.key].copy_(before[place.key])


def _in_buffer(rank: Rank, place: Place) -> torch.Tensor:
    return _buffer(rank)[place.start : place.end]


def _buffer(rank: Rank) -> torch.Tensor:
    if rank.buffer is None:
        raise RuntimeFailedError("the plan all-reduces and holds no buckets: give it their memory")
    return rank.buffer
