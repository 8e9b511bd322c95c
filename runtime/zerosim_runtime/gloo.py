"""Gloo as zerosim uses it: one worker a group, reduce-scatter by all-to-all, messages in pieces.

# Note [Pieces]
Gloo tells its peer that it is ready to receive on the connection that carries its own bytes. On a slow
link that notice waits behind the bytes, so that the two directions of a whole-message all-gather or
all-to-all take turns at random: 1.0 to 2.0 times as long as the link needs. In pieces of 64 KiB a rank
the notices pass. Medians of what the link needs, two ranks, at 100, 400 and 800 Mbit/s: an all-gather
0.99, 1.09, 1.22, an all-to-all 1.00, 1.05, 1.04; in pieces of 32 KiB 1.01, 1.56, 2.87 (each piece costs
the worker a fraction of a millisecond), of 256 KiB 1.06 to 1.54 (the notices wait again). All pieces are
issued at once: the group's one worker moves them in turn.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

import torch
import torch.distributed as dist

GLOO_QUEUE: Final = "zerosim_gloo"
PIECE_BYTES: Final = 64 * 2**10
"""Of one rank's row. See Note [Pieces]."""
WHOLE: Final = 2**62
"""More than any row has: its pieces are whole."""
_SIXTEEN: Final = (torch.bfloat16, torch.float16)


def register() -> None:
    """Let torch know the backend with one worker a group; to do so again changes nothing."""
    if not hasattr(dist.Backend, GLOO_QUEUE.upper()):
        dist.Backend.register_backend(GLOO_QUEUE, _one_worker, devices=["cpu"])


def _one_worker(store: object, rank: int, size: int, timeout: timedelta) -> object:
    # See Note [One queue a communicator]. torch has no public way to say it, nor types for it.
    gloo: Any = dist.ProcessGroupGloo
    options = gloo._Options()  # noqa: SLF001 - torch has no public way
    options._threads = 1  # noqa: SLF001 - same
    options._timeout = timeout  # noqa: SLF001 - same
    named = filter(None, os.environ.get("GLOO_SOCKET_IFNAME", "").split(","))
    devices = [gloo.create_device(interface=name) for name in named]
    options._devices = devices or [gloo.create_default_device()]  # noqa: SLF001 - same
    return gloo(store, rank, size, options)


@dataclass(slots=True)
class Parts:
    """A collective that goes in parts: `wait` waits for each in turn, and does what is left to do."""

    works: list[tuple[Any, Callable[[], None] | None]]

    def wait(self) -> None:
        """Block until all parts have ended. Raises RuntimeError as torch does."""
        for work, finish in self.works:
            work.wait()
            if finish is not None:
                finish()


def gather_in_pieces(
    output: torch.Tensor, source: torch.Tensor, group: dist.ProcessGroup, piece_bytes: int
) -> Parts:
    """An all-gather, a piece of every rank's row at a time."""
    rows = _rows(output, group, source.numel())
    works: list[tuple[Any, Callable[[], None] | None]] = []
    for start, end in _pieces(source, piece_bytes):
        parts = [row[start:end] for row in rows]
        work = dist.all_gather(parts, source[start:end], group=group, async_op=True)
        works.append((work, None))
    return Parts(works)


def scatter_by_all_to_all(
    output: torch.Tensor, source: torch.Tensor, group: dist.ProcessGroup, piece_bytes: int
) -> Parts:
    """A reduce-scatter: rank r is sent everyone's r-th row, and sums them; 16-bit rows in float32."""
    rows = _rows(source, group, output.numel())
    works: list[tuple[Any, Callable[[], None] | None]] = []
    for start, end in _pieces(output, piece_bytes):
        sent = rows[:, start:end].contiguous()
        arrived = torch.empty_like(sent)
        work = dist.all_to_all_single(arrived.view(-1), sent.view(-1), group=group, async_op=True)
        works.append((work, _sum_into(output[start:end], arrived)))
    return Parts(works)


def _sum_into(output: torch.Tensor, arrived: torch.Tensor) -> Callable[[], None]:
    def finish() -> None:
        total = arrived[0].float() if arrived.dtype in _SIXTEEN else output.copy_(arrived[0])
        for row in arrived[1:]:
            total.add_(row)
        if total is not output:
            output.copy_(total)

    return finish


def _rows(whole: torch.Tensor, group: dist.ProcessGroup, row: int) -> torch.Tensor:
    size = dist.get_world_size(group)
    if whole.numel() != size * row:
        raise RuntimeError(f"{whole.numel()} elements are not {size} rows of {row}")
    return whole.view(size, row)


def _pieces(row: torch.Tensor, piece_bytes: int) -> Iterator[tuple[int, int]]:
    """Where each piece of a row begins and ends; one that is empty for an empty row."""
    length = max(1, piece_bytes // row.element_size())
    for start in range(0, max(1, row.numel()), length):
        yield start, min(start + length, row.numel())
