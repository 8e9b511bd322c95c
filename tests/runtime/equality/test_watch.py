"""What the watch writes down: c10d calls of Python and C++, and the markers around layers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.utils.checkpoint import checkpoint

from zerosim.errors import RuntimeFailedError
from zerosim_runtime.equality.seen import Seen
from zerosim_runtime.equality.watch import Record, mark, watching


@pytest.fixture
def alone() -> Iterator[None]:
    """A process group of this process alone."""
    stores: Any = dist  # torch exports them without types
    dist.init_process_group("gloo", rank=0, world_size=1, store=stores.HashStore())
    yield
    dist.destroy_process_group()


def layer(record: Record, name: str, x: torch.Tensor) -> torch.Tensor:
    record.begun(name)
    return mark(record, name, torch.tanh(x))


def markers(record: Record) -> str:
    short = {"forward": "F", "backward": "B", "recompute": "R"}
    return " ".join(short[row.kind] + row.unit for row in record.seen)


def test_layers_are_marked_in_the_order_in_which_their_kernels_run() -> None:
    record, x = Record(), torch.ones(2, requires_grad=True)
    torch.autograd.backward(layer(record, "1", layer(record, "0", x)).sum())
    assert markers(record) == "F0 F1 B1 B0"


def test_a_checkpointed_layer_is_recomputed_before_its_backward() -> None:
    record, x = Record(), torch.ones(2, requires_grad=True)
    for name in ("0", "1"):
        x = checkpoint(lambda y, name=name: layer(record, name, y), x, use_reentrant=False)
    torch.autograd.backward(x.sum())
    assert markers(record) == "F0 F1 R1 B1 R0 B0"


@pytest.mark.usefixtures("alone")
def test_a_collective_is_written_down_with_the_full_tensor_and_its_ranks() -> None:
    record = Record(step=2, micro_batch=1)
    with watching(record):
        dist.all_reduce(torch.ones(3, 4))
        dist.broadcast(torch.ones(5, dtype=torch.int32), src=0)
    assert record.seen == [
        Seen(2, 1, "all_reduce", 12, "float32", (0,)),
        Seen(2, 1, "broadcast", 5, "int32", (0,)),
    ]


@pytest.mark.usefixtures("alone")
def test_a_call_that_is_not_known_is_refused_by_name() -> None:
    with watching(Record()), pytest.raises(RuntimeFailedError, match="'barrier'"):
        dist.barrier()
