"""What DeepSpeed ZeRO-1 and ZeRO-2 settle before training: slices, buckets, and what each rank keeps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby
from math import gcd

from zerosim.kinds import Kind
from zerosim.numerics import Numerics
from zerosim.partition import Buffer
from zerosim.plan import Allocation, ByRank, spread
from zerosim.schedules.deepspeed12 import ipg
from zerosim.schedules.deepspeed12.options import (
    DeepSpeedOptions,
    accumulated,
)
from zerosim.schedules.deepspeed12.slots import Slot, defined, in_arrival
from zerosim.schedules.deepspeed_dtypes import check_numerics, communication_dtype
from zerosim.workload import Workload

_ALIGNED_BYTES = 16
"""Parameters start at multiples of so many bytes with `parameter_alignment`."""


@dataclass(frozen=True, slots=True)
class Group:
    """Gradients of one bucket that are complete at once; `pieces` by layer that made them: elements."""

    bucket: ipg.Bucket
    pieces: tuple[tuple[int, int], ...]
    layer: int

    @property
    def elements(self) -> int:
        """Elements of all its gradients."""
        return sum(elements for _, elements in self.pieces)

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of its gradients, one a piece."""
        return tuple(f"gradient.{self.bucket.index}.{self.layer}.{made}" for made, _ in self.pieces)


@dataclass(frozen=True, slots=True)
class Layout:
    """`groups` in the order in which they enter buckets, `entering` those of each layer's backward.

    `made`: the gradients that first appear in a layer's backward. By bucket: its `reductions`, and
    the bytes by rank that they leave, `kept`. `slice`: elements of the parameters that a rank owns.
    """

    workload: Workload
    n_ranks: int
    numerics: Numerics
    options: DeepSpeedOptions
    stage: int
    slice: int
    groups: tuple[Group, ...]
    entering: Mapping[int, tuple[Group, ...]]
    made: Mapping[int, tuple[Allocation, ...]]
    reductions: tuple[tuple[ipg.Reduction, ...], ...]
    kept: tuple[dict[int, int], ...]
    dtype: str

    @property
    def in_backward(self) -> bool:
        """Whether hooks of the backward fill buckets; else they are filled when it has ended."""
        return self.stage > 1 or self.options.overlap_comm

    @property
    def compact(self) -> bool:
        """Whether gradients are accumulated in a float32 slice, not as whole parameters."""
        return self.numerics.grad_dtype != self.numerics.dtype

    @property
    def synchronizes(self) -> bool:
        """Whether the host waits for the device before each reduction (`allreduce_and_copy`)."""
        owners = self.options.reduce_scatter and not self.options.use_multi_rank_bucket_allreduce
        return self.options.overlap_comm and (owners or not self.options.contiguous_gradients)


def layout(
    workload: Workload, n_ranks: int, numerics: Numerics, options: DeepSpeedOptions, stage: int
) -> Layout:
    """Cut parameters into slices and gradients into buckets. Raises ScenarioError for dtypes."""
    numerics = accumulated(options, numerics)
    check_numerics(stage, numerics)
    slots = defined(workload)
    buffer = _flat(slots, n_ranks, numerics, options)
    late = stage == 1 and not options.overlap_comm
    # Note [ZeRO-1 without overlap reduces in the order of definition]: it loops over the parameters
    # once the backward has ended (`reduce_gradients`), first layer first.
    order = (
        tuple(slot for slot in slots if slot.ready is not None)
        if late
        else in_arrival(workload, slots)
    )
    buckets = ipg.cut_into_buckets(order, options.reduce_bucket_size)
    owners = ipg.owners(buffer)
    each = buffer.pieces[0][1]
    groups = tuple(group for bucket in buckets for group in _groups(bucket, late=late))
    return Layout(
        workload=workload,
        n_ranks=n_ranks,
        numerics=numerics,
        options=options,
        stage=stage,
        slice=each,
        groups=groups,
        entering=_entering(groups),
        made=_made(groups, numerics.param_bytes),
        reductions=tuple(_reductions(bucket, owners, options) for bucket in buckets),
        kept=tuple(_kept(buckets, owners, each, numerics, options, n_ranks)),
        dtype=communication_dtype(options.communication_data_type, numerics),
    )


def flat_padded(
    workload: Workload, n_ranks: int, numerics: Numerics, options: DeepSpeedOptions
) -> int:
    """Elements of the flat parameters, alignment and padding included."""
    return _flat(defined(workload), n_ranks, numerics, options).elements


def _flat(
    slots: tuple[Slot, ...], n_ranks: int, numerics: Numerics, options: DeepSpeedOptions
) -> Buffer:
    start = _ALIGNED_BYTES // gcd(_ALIGNED_BYTES, numerics.param_bytes)
    align = start if options.parameter_alignment else 1
    return ipg.flat(slots, n_ranks, dealt=options.round_robin_gradients, align=align)


def _groups(bucket: ipg.Bucket, *, late: bool) -> list[Group]:
    """Gradients of a bucket by the layer whose backward completes them (late: all at once)."""
    found = []
    for layer, slots in groupby(bucket.slots, key=lambda s: 0 if late else s.ready or 0):
        pieces: dict[int, int] = {}
        for slot in slots:
            made = slot.made or 0
            pieces[made] = pieces.get(made, 0) + slot.numel
        found.append(Group(bucket, tuple(pieces.items()), layer))
    return found


def _entering(groups: tuple[Group, ...]) -> dict[int, tuple[Group, ...]]:
    found: dict[int, tuple[Group, ...]] = {}
    for group in groups:
        found[group.layer] = (*found.get(group.layer, ()), group)
    return found


def _made(groups: tuple[Group, ...], width: int) -> dict[int, tuple[Allocation, ...]]:
    found: dict[int, tuple[Allocation, ...]] = {}
    for group in groups:
        for key, (layer, elements) in zip(group.keys, group.pieces, strict=True):
            gradient = Allocation(key, "gradients", elements * width)
            found[layer] = (*found.get(layer, ()), gradient)
    return found


Owners = Mapping[int, tuple[tuple[int, int], ...]]
"""By parameter: the rank and the elements of each of its slices."""


def _reductions(
    bucket: ipg.Bucket, owners: Owners, options: DeepSpeedOptions
) -> tuple[ipg.Reduction, ...]:
    """The collectives of a bucket, as `average_tensor` or `buffered_reduce_fallback` cuts them."""
    if not options.contiguous_gradients or not options.reduce_scatter:
        flattened = not options.contiguous_gradients and len(bucket.slots) > 1
        return (ipg.Reduction(Kind.ALL_REDUCE, bucket.elements, flattened),)
    slices = [one for slot in bucket.slots for one in owners[slot.index]]
    cut = ipg.all_reduced if options.use_multi_rank_bucket_allreduce else ipg.reduced_to_owners
    return cut(slices, options.reduce_bucket_size)


def _kept(
    buckets: tuple[ipg.Bucket, ...],
    owners: Owners,
    each: int,
    numerics: Numerics,
    options: DeepSpeedOptions,
    n_ranks: int,
) -> list[dict[int, int]]:
    """Bytes by rank that appear with each bucket's reduction: what a rank keeps for its slice.

    # Note [A rank keeps whole parameters]
    A rank copies every gradient that touches its slice, whole, into one buffer that is allocated
    at once with the first of them (`copy_grads_in_partition`). Only float32 accumulation of 16-bit
    gradients keeps no more than the slice (`_build_compact_grad_partition_buffer`).
    """
    touched: list[dict[int, int]] = [_touched(bucket.slots, owners, numerics) for bucket in buckets]
    compact = numerics.grad_dtype != numerics.dtype
    if not (compact or options.contiguous_gradients):
        return touched
    whole: dict[int, int] = {}
    for ranks in touched:
        for rank, nbytes in ranks.items():
            whole[rank] = whole.get(rank, 0) + nbytes
    if compact:
        whole = dict.fromkeys(range(n_ranks), each * numerics.grad_bytes)
    found = [{rank: whole.pop(rank) for rank in ranks if rank in whole} for ranks in touched]
    if compact and found:
        found[-1] |= whole
    return found


def _touched(slots: tuple[Slot, ...], owners: Owners, numerics: Numerics) -> dict[int, int]:
    nbytes: dict[int, int] = {}
    for slot in slots:
        for rank, _ in owners[slot.index]:
            nbytes[rank] = nbytes.get(rank, 0) + slot.numel * numerics.param_bytes
    return nbytes


def by_rank(values: Mapping[int, int], n_ranks: int) -> tuple[int, ByRank | None]:
    """The most, and the values of all ranks as runs (None: equal); ranks without one have 0."""
    runs = spread([values.get(rank, 0) for rank in range(n_ranks)])
    return max(value for _, value in runs), runs if len(runs) > 1 else None


def unequal(key: str, values: Mapping[int, int], n_ranks: int) -> Allocation:
    """Gradients that each rank keeps for its slice."""
    most, runs = by_rank(values, n_ranks)
    return Allocation(key, "gradients", most, runs)
