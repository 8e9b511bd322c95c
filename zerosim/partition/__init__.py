"""Who owns what: whole parameters, even splits, flat buffers, rows; and how even the load then is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from zerosim.partition.balance import Balance, balance
from zerosim.partition.buffers import Buffer, Member, Partition, Piece, padded, pieces
from zerosim.partition.chunks import chunk, chunk_owned
from zerosim.partition.even import owned, padded_unit, shard_unit
from zerosim.partition.styles import (
    by_unit,
    even,
    flat,
    greedy,
    megatron,
    megatron_bucket_size,
    round_robin,
    rows,
    whole,
)
from zerosim.registry import Registry
from zerosim.workload import Unit


@dataclass(frozen=True, slots=True)
class Style:
    """A way to partition: the function that lays the units out, and who does it so."""

    divide: Callable[[Sequence[Unit], int], Partition]
    summary: str


PARTITIONS: Final = Registry(
    "partition",
    {
        "whole": Style(whole, "whole parameters to the least loaded rank (ColossalAI, old)"),
        "even": Style(even, "each parameter split evenly (ColossalAI, DeepSpeed ZeRO-3)"),
        "flat": Style(flat, "one flat buffer cut evenly (DeepSpeed ZeRO-1 and 2)"),
        "round-robin": Style(round_robin, "a flat buffer of dealt parameters (DeepSpeed)"),
        "unit": Style(by_unit, "a flat buffer a unit (FSDP1)"),
        "rows": Style(rows, "each parameter by its rows (FSDP2)"),
        "megatron": Style(megatron, "aligned buckets in reverse order (Megatron-LM)"),
    },
)

__all__ = [
    "PARTITIONS",
    "Balance",
    "Buffer",
    "Member",
    "Partition",
    "Piece",
    "Style",
    "balance",
    "by_unit",
    "chunk",
    "chunk_owned",
    "even",
    "flat",
    "greedy",
    "megatron",
    "megatron_bucket_size",
    "owned",
    "padded",
    "padded_unit",
    "pieces",
    "round_robin",
    "rows",
    "shard_unit",
    "whole",
]
