"""The bytes of a replayed communicator: tensors of the right sizes, moved by the real collective."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final

import torch
import torch.distributed as dist

from zerosim.errors import RuntimeFailedError
from zerosim.kinds import Kind
from zerosim.plan import Axis, Op
from zerosim.replay import Replay
from zerosim_runtime.collectives import PeerLostError, call
from zerosim_runtime.ring import Ring

_IN_PLACE: Final = (Kind.ALL_REDUCE, Kind.BROADCAST, Kind.REDUCE)


class Traffic:
    """One communicator of this rank. Its tensors are as large as its largest collectives'."""

    def __init__(
        self, name: str, group: dist.ProcessGroup, device: torch.device, largest: int
    ) -> None:
        """`largest`: bytes of the largest full tensor."""
        self._name, self._moved = name, 0
        self._group = group
        self._n_ranks = group.size()
        self._whole = torch.zeros(largest + 16 * self._n_ranks, dtype=torch.uint8, device=device)
        self._other = torch.zeros_like(self._whole)
        cuda: Any = torch.cuda  # untyped
        self._stream = cuda.Stream() if device.type == "cuda" else None

    def move(self, op: Op, ring: Ring, now: Callable[[], int]) -> None:
        """Carry out a collective, note it in the ring, and wait for it. Raises PeerLostError."""
        number = ring.issue(self._name, self._moved, op.kind.value, op.unit, now(), op.elements)
        self._moved += 1
        self._finish(op)
        ring.end(number, now())

    def _finish(self, op: Op) -> None:
        try:
            if self._stream is None:
                self._issue(op)
                return
            with torch.cuda.stream(self._stream):
                self._issue(op)
            self._stream.synchronize()
        except RuntimeError as error:
            raise PeerLostError(f"'{op.name}' failed ({error}): see the other ranks") from error

    def _issue(self, op: Op) -> None:
        full, row = self._tensors(op)
        if op.kind is Kind.ALL_TO_ALL:
            dist.all_to_all_single(full, self._like(full), group=self._group)
        elif op.kind is Kind.REDUCE:
            dist.reduce(full, group=self._group, group_dst=0)
        elif op.kind is Kind.ALL_GATHER:
            call(op.kind, full, row, 0, self._group, asynchronous=False)
        elif op.kind is Kind.REDUCE_SCATTER:
            call(op.kind, row, full, 0, self._group, asynchronous=False)
        else:
            call(op.kind, full, full, 0, self._group, asynchronous=False)

    def _tensors(self, op: Op) -> tuple[torch.Tensor, torch.Tensor]:
        """The full tensor of a collective, and a rank's row of it."""
        dtype, elements = dtype_of(op)
        row = -(-elements // self._n_ranks)
        if op.kind not in _IN_PLACE:
            elements = row * self._n_ranks
        full = self._whole[: elements * dtype.itemsize].view(dtype)
        return full, self._other[: row * dtype.itemsize].view(dtype)

    def _like(self, full: torch.Tensor) -> torch.Tensor:
        return self._other[: full.numel() * full.element_size()].view(full.dtype)


def dtype_of(op: Op) -> tuple[torch.dtype, int]:
    """The torch dtype and the elements of a collective; bytes where backends do not know the dtype."""
    found = getattr(torch, str(op.dtype), None)
    nbytes = op.nbytes or 0
    if not isinstance(found, torch.dtype) or found.itemsize * (op.elements or 0) != nbytes:
        return torch.uint8, nbytes
    if str(op.dtype).startswith("float8"):
        return torch.uint8, nbytes
    return found, op.elements or 0


def traffic_of(
    replay: Replay, rank: int, backend: str, device: torch.device, timeout_s: float
) -> dict[str, Traffic]:
    """The communicators of a replay that this rank is a member of; all ranks must ask together."""
    axes = {axis.name: axis for axis in replay.plan.axes}
    found: dict[str, Traffic] = {}
    named: dict[str, tuple[str, int]] = {}
    for op in replay.plan.ops:
        if op.communicator is not None and op.group is not None and op.id in replay.priced:
            _, most = named.get(op.communicator, (op.group, 0))
            named[op.communicator] = (op.group, max(most, op.nbytes or 0))
    for name, (group, largest) in named.items():
        for ranks in instances(axes[group], replay.plan.world_size):
            made = dist.new_group(ranks, timedelta(seconds=timeout_s), backend)
            if rank in ranks:
                if not isinstance(made, dist.ProcessGroup):
                    raise RuntimeFailedError(f"backend '{backend}' gave no group: use gloo or nccl")
                found[name] = Traffic(f"{name} {ranks[0]}", made, device, largest)
    return found


def instances(axis: Axis, n_ranks: int) -> list[list[int]]:
    """The groups of an axis: the ranks of each."""
    block = axis.size * axis.stride
    return [
        [start + offset + i * axis.stride for i in range(axis.size)]
        for start in range(0, n_ranks, block)
        for offset in range(axis.stride)
    ]
