"""The partition styles: who owns which elements in ColossalAI, DeepSpeed, FSDP and Megatron."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heapreplace
from itertools import groupby
from math import lcm
from typing import Final

from zerosim.partition.buffers import Buffer, Partition, cut, laid, padded, parameters_of
from zerosim.partition.chunks import chunk
from zerosim.workload import Unit


def greedy(numels: Sequence[int], n_ranks: int) -> tuple[int, ...]:
    """The rank of each whole parameter: the largest first, each to the least loaded (lowest) rank.

    ColossalAI before its even split (low_level_optim.py, `_partition_param_list`).
    """
    loads = [(0, rank) for rank in range(n_ranks)]
    heapify(loads)
    owners = [0] * len(numels)
    for i in sorted(range(len(numels)), key=lambda i: -numels[i]):
        load, owners[i] = loads[0]
        heapreplace(loads, (load + numels[i], owners[i]))
    return tuple(owners)


def whole(units: Sequence[Unit], n_ranks: int) -> Partition:
    """Each parameter goes whole to the least loaded rank, the largest first.

    With fewer parameters than ranks, ranks are left with nothing.
    """
    parameters = parameters_of(units)
    owners = greedy([p.numel for p in parameters], n_ranks)
    loads = [0] * n_ranks
    for parameter, owner in zip(parameters, owners, strict=True):
        loads[owner] += parameter.numel
    order = sorted(range(len(parameters)), key=lambda i: owners[i])
    runs = tuple((len(list(same)), load) for load, same in groupby(loads))
    return Partition(n_ranks, (Buffer(laid(parameters, order), runs),))


def even(units: Sequence[Unit], n_ranks: int) -> Partition:
    """Each parameter is padded and viewed as `[n_ranks, -1]`: rank r owns row r.

    ColossalAI's low-level ZeRO, DeepSpeed's ZeRO-3.
    """
    parameters = parameters_of(units)
    each = (cut(laid(parameters, [i]), n_ranks) for i in range(len(parameters)))
    return Partition(n_ranks, tuple(each))


def rows(units: Sequence[Unit], n_ranks: int) -> Partition:
    """Each parameter is cut along its first dimension by `torch.chunk`; every rank stores a full chunk.

    FSDP2: with d rows a chunk has ceil(d / n_ranks), so the last ranks may own no row.
    """
    made = []
    for i, parameter in enumerate(parameters := parameters_of(units)):
        made.append(Buffer(laid(parameters, [i]), ((n_ranks, chunk(parameter, n_ranks)),)))
    return Partition(n_ranks, tuple(made))


def flat(units: Sequence[Unit], n_ranks: int, alignment: int = 2) -> Partition:
    """All parameters in one buffer, padded to `alignment`·n_ranks and cut evenly.

    DeepSpeed's ZeRO-1 and 2 (`nccl_start_alignment_factor` is 2): a parameter may straddle ranks,
    and the last rank carries the padding.
    """
    parameters = parameters_of(units)
    members = laid(parameters, range(len(parameters)))
    return Partition(n_ranks, (cut(members, n_ranks, alignment),))


def round_robin(units: Sequence[Unit], n_ranks: int, alignment: int = 2) -> Partition:
    """As flat, with parameters dealt first: i to list i mod n_ranks, lists one after the other.

    DeepSpeed's `round_robin_gradients`.
    """
    parameters = parameters_of(units)
    order = sorted(range(len(parameters)), key=lambda i: i % n_ranks)
    return Partition(n_ranks, (cut(laid(parameters, order), n_ranks, alignment),))


def by_unit(units: Sequence[Unit], n_ranks: int, align: int = 1) -> Partition:
    """The parameters of a unit in one buffer, padded to n_ranks and cut evenly: FSDP1's flat parameter.

    `align`: elements to a multiple of which each parameter starts (FSDP1 with `use_orig_params`).
    """
    parameters = parameters_of(units)
    made, first = [], 0
    for unit in units:
        last = first + len(unit.parameters)
        made.append(cut(laid(parameters, range(first, last), align), n_ranks))
        first = last
    return Partition(n_ranks, tuple(made))


MEGATRON_START: Final = 64
"""Elements to a multiple of which Megatron's distributed optimizer aligns each parameter."""
MEGATRON_END: Final = 128
"""A bucket's end is padded to a multiple of this and of the ranks."""


def megatron_bucket_size(n_ranks: int) -> int:
    """Megatron's default bucket size, in elements: max(40e6, 1e6·n_ranks)."""
    return max(40_000_000, 1_000_000 * n_ranks)


def megatron(
    units: Sequence[Unit],
    n_ranks: int,
    bucket_size: float | None = None,
    padding: int = MEGATRON_END,
) -> Partition:
    """Parameters in reverse order, each start aligned to 64 elements; each rank owns a slice a bucket.

    A bucket closes once it holds `bucket_size` elements or more (None: max(40e6, 1e6·n_ranks),
    infinity: never) and is padded to a multiple of lcm(n_ranks, `padding`).
    """
    cap = megatron_bucket_size(n_ranks) if bucket_size is None else bucket_size
    parameters = parameters_of(units)
    buckets: list[list[int]] = [[]]
    end = 0
    for i in reversed(range(len(parameters))):
        if end >= cap:
            buckets.append([])
            end = 0
        buckets[-1].append(i)
        end = padded(end, MEGATRON_START) + parameters[i].numel
    multiple = lcm(n_ranks, padding) // n_ranks
    aligned = (laid(parameters, bucket, MEGATRON_START) for bucket in buckets)
    return Partition(n_ranks, tuple(cut(members, n_ranks, multiple) for members in aligned))
