"""Stages 1 and 2: parameters stay whole; gradients are reduced by bucket, each rank keeps its part."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from functools import partial

import torch
from torch import nn

from zerosim.errors import InputError, RuntimeFailedError
from zerosim_runtime.memory import Memory
from zerosim_runtime.zero.buckets import Dynamic, Names, Order
from zerosim_runtime.zero.channels import Channels
from zerosim_runtime.zero.split import Reduction, Split
from zerosim_runtime.zero.stage import Share, Stage
from zerosim_runtime.zero.usage import count_users


class Replicated(Stage):
    """Whole parameters on every rank, their gradients and states in parts.

    In the last micro-batch each gradient is taken as soon as autograd has accumulated it; `order` says
    which buckets are then full. A bucket that begins waits until fewer than `in_flight` are under way.
    In static order a bucket has zeros in the place of a gradient that is missing. See Note [Layer drop].
    """

    def __init__(
        self,
        module: nn.Module,
        parameters: Mapping[str, nn.Parameter],
        split: Split,
        order: Order,
        gathers: tuple[Names, ...],
        channels: Channels,
        memory: Memory,
        *,
        keep_gradients: bool,
        in_flight: int,
    ) -> None:
        self._module = module
        self._parameters = parameters
        self._split = split
        self._order = order
        self._gathers = gathers
        self._channels = channels
        self._memory = memory
        self._keep_gradients = keep_gradients
        self._in_flight = in_flight
        self._flat = {name: p.detach().view(-1) for name, p in parameters.items()}
        self._shares = {
            name: share for name in parameters if (share := split.share(name)) is not None
        }
        self._last = False
        self._dynamic = isinstance(order, Dynamic)
        self._used: set[str] = set()
        self._n_begun = 0
        self._under_way: deque[Reduction] = deque()
        self._rows: dict[str, torch.Tensor] = {}
        self._hooks = [
            parameter.register_post_accumulate_grad_hook(partial(self._arrived, name))
            for name, parameter in parameters.items()
        ]

    def shares(self) -> Mapping[str, Share]:
        """What the split gives to this rank."""
        return self._shares

    def backward(self, loss: torch.Tensor, *, last: bool) -> None:
        """Autograd; the hooks do the rest, except for buckets that lack a gradient."""
        self._last = last
        torch.autograd.backward(loss)
        if not last:
            return
        for name, parameter in self._parameters.items():
            if parameter.data_ptr() != self._flat[name].data_ptr():
                raise InputError(
                    f"'{name}' is no longer what was sharded: move modules before shard()"
                )
            if parameter.grad is not None and name not in self._used:
                self._take(name)  # only an earlier micro-batch used it
        for names in self._order.rest():
            self._begin(names)

    def gradients(self) -> Mapping[str, torch.Tensor | None]:
        """Rows of those parameters that any rank has used."""
        while self._under_way:
            self._finish_first()
        users = self._users()
        return {name: self._rows[name] if users[name] else None for name in self._shares}

    def weights(self) -> Mapping[str, torch.Tensor]:
        """Views of the parameters."""
        return {
            name: self._flat[name][share.start : share.end] for name, share in self._shares.items()
        }

    def refresh(self) -> None:
        """Drop the gradients first: gathers take memory too."""
        self._rows.clear()
        self._used.clear()
        self._n_begun = 0
        for key in [key for key in self._memory.booked if key.startswith("reduced.")]:
            self._memory.drop(key)
        for name in self._parameters:
            self._forget(name)
        self._split.gather(self._flat, self._gathers)

    def whole(self, name: str) -> torch.Tensor:
        """The parameter itself."""
        return self._module.get_parameter(name).detach()

    def close(self) -> None:
        """Take the hooks off."""
        for hook in self._hooks:
            hook.remove()

    def _arrived(self, name: str, parameter: nn.Parameter) -> None:
        """Autograd has accumulated a gradient."""
        if parameter.grad is None or parameter.grad.layout is not torch.strided:
            raise RuntimeFailedError(f"the gradient of '{name}' is sparse: use a dense one")
        if _key(name) not in self._memory.booked:
            self._memory.book(_key(name), "gradients", parameter.grad.nbytes)
        if self._last:
            self._take(name)

    def _take(self, name: str) -> None:
        """This gradient is complete: reduce the buckets that are full now."""
        if name in self._used:
            raise RuntimeFailedError(
                f"the gradient of '{name}' came twice in one backward pass: "
                "checkpoint with use_reentrant=False"
            )
        self._used.add(name)
        for names in self._order.arrived(name):
            self._begin(names)

    def _begin(self, names: Names) -> None:
        while len(self._under_way) >= self._in_flight:
            self._finish_first()
        found = {name: self._parameters[name].grad for name in names}
        gradients = {name: gradient for name, gradient in found.items() if gradient is not None}
        self._under_way.append(self._split.begin(self._n_begun, names, gradients))
        self._n_begun += 1
        if not self._keep_gradients:
            for name in gradients:
                self._forget(name)

    def _finish_first(self) -> None:
        self._rows.update(self._split.finish(self._under_way.popleft()))

    def _forget(self, name: str) -> None:
        """Let a whole gradient go."""
        self._parameters[name].grad = None
        if _key(name) in self._memory.booked:
            self._memory.drop(_key(name))

    def _users(self) -> dict[str, int]:
        """How many ranks have used each parameter; see Note [Layer drop]."""
        users = count_users(self._parameters, self._used, self._channels, self._memory)
        n_ranks = self._channels.n_ranks
        for name, several in users.items() if self._dynamic else ():
            if 0 < several < n_ranks:
                raise RuntimeFailedError(
                    f"'{name}' has a gradient on {several} of {n_ranks} ranks: "
                    "give bucket_order 'static'"
                )
        return users


def _key(name: str) -> str:
    return f"gradient.{name}"
