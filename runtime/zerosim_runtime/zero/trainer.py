"""The trainer: a module, its ZeRO stage, and the sharded optimizer behind it.

Once `trainer = shard(model, Options(stage=2))`; in each step `trainer.backward(model(batch))`, then
`trainer.step()`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import torch
from torch import nn
from torch.utils.hooks import RemovableHandle

from zerosim.errors import InputError
from zerosim_runtime.guard import Guard, open_guard
from zerosim_runtime.memory import Memory
from zerosim_runtime.optimizer import Settings
from zerosim_runtime.tracing.labels import stepping
from zerosim_runtime.zero.channels import Channels, open_channels
from zerosim_runtime.zero.checkpoint import State, load, save
from zerosim_runtime.zero.norm import clip_factor, global_norm
from zerosim_runtime.zero.options import Options
from zerosim_runtime.zero.scale import Scale, scale_of
from zerosim_runtime.zero.stage import Stage
from zerosim_runtime.zero.stages import make_stage
from zerosim_runtime.zero.start import agree, check, compute_in, mark, send_from_first
from zerosim_runtime.zero.states import Owned, own, update
from zerosim_runtime.zero.units import units_of


@dataclass(frozen=True, slots=True)
class Stepped:
    """How a step went. `norm`: the global gradient norm before clipping, None: not asked for.

    `skipped`: a gradient of some rank was not finite, so nobody stepped.
    """

    norm: float | None
    skipped: bool


@dataclass(slots=True)
class Trainer:
    """One rank of a sharded training.

    `settings` may be replaced between steps (learning rate). `ledger` books every tensor that the
    library holds; its changes are those since the latest step began. `begun` micro-batches have been
    passed back since then, and `reduced` says whether the last one has.
    """

    model: nn.Module
    options: Options
    channels: Channels
    ledger: Memory
    stage: Stage
    owned: Mapping[str, Owned]
    shapes: Mapping[str, tuple[int, ...]]
    scale: Scale | None
    hooks: tuple[RemovableHandle, ...]
    guard: Guard | None
    settings: Settings
    begun: int = 0
    reduced: bool = False
    closed: bool = False

    def backward(self, loss: torch.Tensor, *, last: bool = True) -> None:
        """Gradients of one micro-batch; those of the `last` are reduced over the ranks.

        As in torch, gradients of several micro-batches add up: divide the loss by their number.
        """
        self._check_open()
        if self.reduced:
            raise InputError("backward() after the step's last micro-batch: call step() first")
        if self.begun == 0:
            self.ledger.changes.clear()
        self.stage.backward(loss if self.scale is None else loss * self.scale.value, last=last)
        self.begun += 1
        self.reduced = last

    def step(self) -> Stepped:
        """Update the rows this rank owns, and bring everyone's new rows to whoever computes with them."""
        self._check_open()
        if not self.reduced:
            raise InputError("step() without gradients: call backward(loss, last=True) first")
        self.reduced, self.begun = False, 0
        gradients = self.stage.gradients()
        rows = [row for row in gradients.values() if row is not None]
        norm = self._norm(rows)
        skipped = self.scale is not None and norm is not None and not math.isfinite(norm)
        with stepping(self):
            if not skipped:
                self._update(gradients, self._factor(norm))
        self.stage.refresh()
        if self.scale is not None:
            self.scale.after(overflow=skipped)
        if self.guard is not None:
            self.guard.settle()
        return Stepped(None if self.options.clip_norm is None else norm, skipped)

    def save(self, directory: str | Path) -> None:
        """Write a checkpoint between two steps; see `zerosim_runtime.zero.checkpoint`."""
        if self.begun:
            raise InputError("save() between backward() and step(): call step() first")
        save(Path(directory).resolve(), self._state(), self.channels, self.ledger)

    def load(self, directory: str | Path) -> None:
        """Go on from a checkpoint, whatever number of ranks saved it, at whatever stage."""
        load(Path(directory).resolve(), self._state(), self.channels, self.ledger)
        self.reduced, self.begun = False, 0
        self.stage.refresh()

    def whole(self) -> dict[str, torch.Tensor]:
        """Copies of all parameters, whole, on every rank; all must ask together."""
        names = [name for name, _ in self.model.named_parameters()]
        return {name: self.stage.whole(name).clone() for name in names}

    def close(self) -> None:
        """Give the module back as it computes now: hooks off, queues and their groups ended."""
        self.closed = True
        self._take_off_hooks()
        if self.guard is not None:
            self.guard.close()
        self.channels.close()

    def _check_open(self) -> None:
        if self.closed:
            raise InputError("the trainer is closed: shard the module anew")

    def __enter__(self) -> Self:
        """The trainer, which is closed at the end of the block."""
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        if error is None:
            self.close()
        else:  # the other ranks may never come to what is under way: do not wait for them
            self._take_off_hooks()

    def _take_off_hooks(self) -> None:
        self.stage.close()
        for hook in self.hooks:
            hook.remove()
        mark(self.model, sharded=False)

    def _norm(self, rows: Sequence[torch.Tensor]) -> float | None:
        """The norm of true (not scaled) gradients, if anything depends on it."""
        if self.scale is None and self.options.clip_norm is None:
            return None
        norm = global_norm(rows, self.channels, self.ledger)
        return norm if self.scale is None else norm / self.scale.value

    def _factor(self, norm: float | None) -> float:
        """What clips gradients of that norm."""
        if norm is None or self.options.clip_norm is None:
            return 1.0
        double = any(each.master.dtype is torch.float64 for each in self.owned.values())
        dtype = torch.float64 if double else torch.float32
        return clip_factor(norm, self.options.clip_norm, dtype)

    def _state(self) -> State:
        persistent = self.model.state_dict(keep_vars=True)
        buffers = {n: b for n, b in self.model.named_buffers() if n in persistent}
        name = self.options.optimizer
        return State(name, self.shapes, self.stage.shares(), self.owned, buffers, self.scale)

    @torch.no_grad()
    def _update(self, gradients: Mapping[str, torch.Tensor | None], factor: float) -> None:
        for name, owned in self.owned.items():
            row = gradients[name]
            if row is None:
                continue  # Note [Layer drop]
            row = row[: owned.master.numel()].to(owned.master.dtype)
            if self.scale is not None:
                row.mul_(1 / self.scale.value)
            if factor < 1 or math.isnan(factor):
                row.mul_(factor)
            update(owned, row, self.options.optimizer, self.settings)


def shard(
    model: nn.Module,
    options: Options | None = None,
    units: Sequence[str] | None = None,
    *,
    timeout_s: float = 600.0,
) -> Trainer:
    """Shard a module over the ranks of the default process group; all ranks must do so together.

    Every rank starts with rank 0's parameters and buffers. `units`: module paths of the parts that
    travel together, None: the entries of module lists, else the children. A collective that takes
    longer than `timeout_s` fails. Raises InputError, UnknownNameError.
    """
    options = options or Options()
    named, device = units_of(model, units), check(model)
    channels = open_channels(device, timeout_s, options.scatter)
    try:
        agree(model, options, channels)
    except InputError:
        channels.close()
        raise
    memory = Memory(channels.device, poison=options.poison)
    send_from_first(model, channels)
    originals = {name: p.detach() for name, p in model.named_parameters() if p.requires_grad}
    hooks = compute_in(model, options.dtype)
    stage = make_stage(model, options, named, channels, memory)
    owned = own(stage.weights(), stage.shares(), originals, options.optimizer, memory)
    mark(model, sharded=True)
    queues = {"gather": channels.gather, "reduce": channels.reduce}
    return Trainer(
        model=model,
        options=options,
        channels=channels,
        ledger=memory,
        stage=stage,
        owned=owned,
        shapes={name: tuple(tensor.shape) for name, tensor in originals.items()},
        scale=scale_of(options.loss_scale),
        hooks=hooks,
        guard=open_guard(queues, timeout_s) if options.guard else None,
        settings=options.settings,
    )
