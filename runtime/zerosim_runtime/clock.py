"""Whether ranks share a clock, and how far their clocks are apart if they do not."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import torch
import torch.distributed as dist

from zerosim_runtime.records import Offset

_ROUNDS: Final = 200


def clock_identity() -> str:
    """Equal for two processes if their monotonic clocks are one: same boot, same time namespace."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        namespace = str(Path("/proc/self/ns/time").readlink())
    except OSError:
        # Without proof that a clock is shared, each process counts as having its own.
        return f"process {id(_ROUNDS)} {time.time_ns()}"
    return f"{boot} {namespace}"


def one_clock() -> bool:
    """Whether all ranks of the default group share a clock; every rank must ask."""
    identities: list[object] = [None] * dist.get_world_size()
    dist.all_gather_object(identities, clock_identity())
    return len(set(identities)) == 1


def measure_offsets(now: Callable[[], int] = time.perf_counter_ns) -> tuple[Offset, ...]:
    """Ping-pong between rank 0 and each other rank; the round with the shortest way counts.

    Every rank must call it. Rank 0 gets the offsets, the others an empty tuple. Averages and barriers
    would be wrong by what they wait for; the shortest round is wrong by half of its length at most.
    """
    rank = dist.get_rank()
    if rank:
        for _ in range(_ROUNDS):
            _receive(0)
            _send(0, now())
        return ()
    return tuple(_offset(peer, now) for peer in range(1, dist.get_world_size()))


def _offset(peer: int, now: Callable[[], int]) -> Offset:
    return min((_round(peer, now) for _ in range(_ROUNDS)), key=lambda offset: offset.error_ns)


def _round(peer: int, now: Callable[[], int]) -> Offset:
    before = now()
    _send(peer, before)
    there = _receive(peer)
    after = now()
    middle = (before + after) // 2
    return Offset(peer, middle, there - middle, (after - before + 1) // 2)


def _send(peer: int, value: int) -> None:
    dist.send(torch.tensor([value], dtype=torch.int64), peer)


def _receive(peer: int) -> int:
    buffer = torch.empty(1, dtype=torch.int64)
    dist.recv(buffer, peer)
    return int(buffer.item())
