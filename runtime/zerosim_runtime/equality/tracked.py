"""A step of FSDP2 on fake ranks under torch's FSDPMemTracker: its peak, by kind and layer by layer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import torch
import torch.distributed as dist
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed._tools.fsdp2_mem_tracker import FSDPMemTracker
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn import functional as F  # noqa: N812 - torch's own custom
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils._python_dispatch import TorchDispatchMode

from zerosim_runtime.equality.memory_cases import MODELS, MemoryCase

_CPU: Final = torch.device("cpu")
_TOTAL: Final = "Total"


class WithLoss(nn.Module):
    """A model of scores, and the cross entropy of its own token ids: what a training step computes."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """The mean loss of token ids `[batch, seq]`."""
        return F.cross_entropy(self.model(ids).flatten(0, 1), ids.flatten())


@dataclass(frozen=True, slots=True)
class Tracked:
    """What the tracker saw in one step without its update, in bytes.

    `curve`: the most while each layer ran forward (`F0`) or backward (`B0`), in order.
    """

    peak_bytes: int
    by_kind: dict[str, int]
    curve: tuple[tuple[str, int], ...]


@dataclass(slots=True)
class _Curve:
    """The most seen since each layer began."""

    most: dict[str, int] = field(default_factory=dict)
    now: str = "start"


class _Watch(TorchDispatchMode):
    """Looks at the tracker's total after every op."""

    def __init__(self, tracker: FSDPMemTracker, curve: _Curve) -> None:
        super().__init__()  # type: ignore[no-untyped-call] # torch's has no types
        self.tracker, self.curve = tracker, curve

    def __torch_dispatch__(
        self,
        func: Any,  # noqa: ANN401 - torch's own signature
        types: Any,  # noqa: ANN401 - same
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401 - same
        """Carry out one op and look."""
        del types
        out = func(*args, **(kwargs or {}))
        snapshot = self.tracker._curr_mem_snap.get(_CPU)  # noqa: SLF001 - no quick public way
        if snapshot is not None:
            most = self.curve.most
            most[self.curve.now] = max(most.get(self.curve.now, 0), snapshot[_TOTAL])
        return out


def tracked(case: MemoryCase) -> Tracked:
    """Run one step of a pair; the default process group must not be there yet."""
    with _fake_ranks(case.world_size) as mesh, FakeTensorMode():
        model, blocks = _wrapped(case, mesh)
        curve = _Curve()
        for i, block in enumerate(blocks):
            _mark(block, str(i), curve)
        ids = torch.zeros(case.batch, case.seq, dtype=torch.long)
        tracker = FSDPMemTracker(model)
        tracker.track_inputs((ids,))
        with tracker, _Watch(tracker, curve):
            loss = model(ids)
            curve.now = "loss"
            loss.backward()
        peak = tracker.get_tracker_snapshot("peak")[_CPU]
    by_kind = {str(getattr(kind, "value", kind)): nbytes for kind, nbytes in peak.items()}
    total = by_kind.pop(_TOTAL)
    return Tracked(total, by_kind, tuple(curve.most.items()))


@contextmanager
def _fake_ranks(world_size: int) -> Iterator[DeviceMesh]:
    dist.init_process_group("fake", rank=0, world_size=world_size, store=FakeStore())
    try:
        yield init_device_mesh("cpu", (world_size,))
    finally:
        dist.destroy_process_group()


def _wrapped(case: MemoryCase, mesh: DeviceMesh) -> tuple[nn.Module, list[nn.Module]]:
    model = WithLoss(MODELS[case.model]())
    blocks: nn.ModuleList = model.model.blocks  # type: ignore[assignment] # all of MODELS have them
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for i, block in enumerate(blocks):
        wrapped = checkpoint_wrapper(block) if case.checkpointing == "full" else block
        blocks[i] = fully_shard(wrapped, mesh=mesh, mp_policy=policy)  # type: ignore[assignment] # a Module too
    fully_shard(model, mesh=mesh, mp_policy=policy)
    return model, list(blocks)


def _mark(block: nn.Module, name: str, curve: _Curve) -> None:
    def begin(kind: str) -> None:
        curve.now = f"{kind}{name}"

    block.register_forward_pre_hook(lambda *_: begin("F"))
    block.register_full_backward_pre_hook(lambda *_: begin("B"))
