"""What a rank talks through: a queue of gathers and broadcasts, and one of reductions."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.distributed as dist

from zerosim.errors import InputError
from zerosim.kinds import PREFIX, Kind
from zerosim_runtime import cuda
from zerosim_runtime.collectives import Communicator, Handle, communicator
from zerosim_runtime.tracing.labels import Label, labelled


@dataclass(frozen=True, slots=True)
class Channels:
    """This rank among the ranks of the default process group, and its two queues of collectives."""

    rank: int
    n_ranks: int
    device: torch.device
    gather: Communicator
    reduce: Communicator

    def all_gather(
        self, unit: str, output: torch.Tensor, source: torch.Tensor, bucket: int | None = None
    ) -> Handle:
        """Start filling `output` `[n_ranks·n]` from everyone's `source` `[n]`."""
        return _issue(self.gather, Kind.ALL_GATHER, unit, bucket, output, source)

    def broadcast(
        self, unit: str, tensor: torch.Tensor, bucket: int | None = None, root: int = 0
    ) -> Handle:
        """Start bringing `root`'s flat `tensor` to all."""
        return _issue(self.gather, Kind.BROADCAST, unit, bucket, tensor, tensor, root)

    def reduce_scatter(
        self, unit: str, output: torch.Tensor, source: torch.Tensor, bucket: int | None = None
    ) -> Handle:
        """Start leaving in `output` `[n]` this rank's row of the sum of everyone's `source`."""
        return _issue(self.reduce, Kind.REDUCE_SCATTER, unit, bucket, output, source)

    def all_reduce(self, unit: str, tensor: torch.Tensor, bucket: int | None = None) -> Handle:
        """Start summing a flat `tensor` in place."""
        return _issue(self.reduce, Kind.ALL_REDUCE, unit, bucket, tensor, tensor)

    def reduce_to(
        self, root: int, unit: str, tensor: torch.Tensor, bucket: int | None = None
    ) -> Handle:
        """Start leaving the sum of everyone's flat `tensor` in that of `root`."""
        return _issue(self.reduce, Kind.REDUCE, unit, bucket, tensor, tensor, root)

    def close(self) -> None:
        """End both queues once they are empty; their process groups end with them."""
        for channel in (self.gather, self.reduce):
            channel.close()
            if not channel.broken:
                dist.destroy_process_group(channel.group)


def open_channels(device: torch.device, timeout_s: float, scatter: str = "native") -> Channels:
    """Two queues over the ranks of the default process group; all ranks must open theirs together.

    On NCCL if the module is on a GPU. `scatter`: how Gloo reduces and scatters.

    Raises UnknownNameError, InputError if there is no process group.
    """
    if not dist.is_initialized():
        raise InputError(
            "there is no process group: call torch.distributed.init_process_group first"
        )
    if device.type == "cuda" and not cuda.is_current(device):
        raise InputError(
            f"the module is on {device}, this rank on another GPU: call torch.cuda.set_device({device.index})"
        )
    backend = "nccl" if device.type == "cuda" else "gloo"
    gather = communicator(backend, timeout_s)
    reduce = communicator(backend, timeout_s, scatter=scatter)
    return Channels(dist.get_rank(), dist.get_world_size(), device, gather, reduce)


def _issue(
    channel: Communicator,
    kind: Kind,
    unit: str,
    bucket: int | None,
    output: torch.Tensor,
    source: torch.Tensor,
    root: int = 0,
) -> Handle:
    with labelled(Label(unit=unit, bucket=bucket)):
        return channel.issue(kind, f"{PREFIX[kind]}{unit}", output, source, root)
