"""ZeRO-3: parameters live in shards; each unit is gathered before it runs, then freed.

# Note [When a unit comes and goes]
Before a unit's forward it is gathered, and the next ones of the last forward's order with it; after its
last call it is freed, but for the unit called last of all, which the backward needs at once. A hook on
a unit's outputs, run when the first gradient of them is there, gathers it for the backward, and those
called before it ahead. An identity on its inputs runs when their gradients are complete: autograd runs
ready nodes latest first, and accumulates parameters' gradients before all, so that by then the unit
is done with this call. After the backward of its first call it is freed and its gradients are reduced.
Units without such inputs, and the root, are reduced at the end of the backward.

# Note [Computing again]
Activation checkpointing calls forward hooks inside the backward. There a unit is only gathered: no
call is counted, nothing is freed or gathered ahead. If the first forward ran without a graph
(reentrant checkpointing), the identity on the second one's inputs counts for it; else that identity
never runs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any

import torch
from torch import nn
from torch.utils.hooks import RemovableHandle

from zerosim.errors import InputError, RuntimeFailedError
from zerosim_runtime.memory import Memory
from zerosim_runtime.zero.calls import Calls
from zerosim_runtime.zero.channels import Channels
from zerosim_runtime.zero.groups import groups_of
from zerosim_runtime.zero.holding import Holding, hold
from zerosim_runtime.zero.identity import behind_identity
from zerosim_runtime.zero.nested import replaced, tensors_in, tensors_left
from zerosim_runtime.zero.options import Options
from zerosim_runtime.zero.stage import Share, Stage
from zerosim_runtime.zero.units import ROOT
from zerosim_runtime.zero.usage import used_rows


@dataclass(slots=True, eq=False)
class Call:
    """One forward call of a unit, the `index`-th since the last backward.

    `differentiated`: its outputs need gradients, so that the backward gathers it.
    """

    unit: Holding
    index: int | None
    differentiated: bool = False


class Sharded(Stage):
    """Parameters, gradients and states in rows. See Note [When a unit comes and goes]."""

    def __init__(
        self,
        module: nn.Module,
        options: Options,
        units: Sequence[str],
        channels: Channels,
        memory: Memory,
    ) -> None:
        self._options = options
        self._channels = channels
        self._memory = memory
        self._units = {g.name: hold(g, channels, memory) for g in groups_of(module, units)}
        self._root = self._units[ROOT]
        self._calls = Calls()
        self._graph: list[Call] = []
        self._open: list[Call] = []
        self._recording = False
        self._start = 0
        self._in_backward = False
        self._broken = False
        self._under_way: deque[Callable[[], None]] = deque()
        self._numbers = count()
        self._rows: Mapping[str, torch.Tensor | None] | None = None
        self._hooks: list[RemovableHandle] = []
        for unit in self._units.values():
            before = unit.group.module.register_forward_pre_hook(
                partial(self._before_forward, unit), prepend=True, with_kwargs=True
            )
            after = unit.group.module.register_forward_hook(partial(self._after_forward, unit))
            self._hooks += [before, after, *unit.hooks]

    def shares(self) -> Mapping[str, Share]:
        """A row of every parameter that is trained."""
        found: dict[str, Share] = {}
        for unit in self._units.values():
            for piece in unit.trained:
                start = min(self._channels.rank * piece.row, piece.numel)
                end = min(start + piece.row, piece.numel)
                found[piece.name] = Share(start, end, piece.row)
        return found

    def backward(self, loss: torch.Tensor, *, last: bool) -> None:  # noqa: ARG002 - each micro-batch is reduced
        """Autograd; hooks gather, reduce and free; what they could not reach is reduced at the end."""
        self._check()
        self._in_backward = True
        try:
            torch.autograd.backward(loss)
            self._end_backward()
        except BaseException:
            self._broken = any(unit.reached for unit in self._units.values())
            raise
        finally:
            self._in_backward = False

    def gradients(self) -> Mapping[str, torch.Tensor | None]:
        """Rows of those parameters that any rank has used."""
        self._check()
        while self._under_way:
            self._under_way.popleft()()
        if self._rows is None:
            rows = {n: row for unit in self._units.values() for n, row in unit.rows().items()}
            used = {name for unit in self._units.values() for name in unit.used}
            self._rows = used_rows(rows, used, self._channels, self._memory)
        return self._rows

    def weights(self) -> Mapping[str, torch.Tensor]:
        """Views of the shards, padding included."""
        return {
            piece.name: unit.weights()[piece.name]
            for unit in self._units.values()
            for piece in unit.trained
        }

    def refresh(self) -> None:
        """Whoever computes next gathers the new values: nothing of the old ones stays."""
        self._rows = None
        self._graph.clear()
        for unit in self._units.values():
            unit.free()
            unit.forget()
            unit.n_calls = 0

    def whole(self, name: str) -> torch.Tensor:
        """One parameter, gathered for this purpose."""
        for unit in self._units.values():
            if name in unit.group.parameters:
                return unit.join(name)
        raise InputError(f"no parameter '{name}': give one of module.named_parameters()")

    def close(self) -> None:
        """Take the hooks off; the parameters stay in shards."""
        for hook in self._hooks:
            hook.remove()

    def _before_forward(
        self, unit: Holding, _: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[Any, Any] | None:
        if self._in_backward:
            unit.gather()
            unit.arrive()
            unit.reached = True
        else:
            self._check()
            if unit is self._root:
                self._begin_forward()
            self._call(unit)
        if unit is self._root or not torch.is_grad_enabled():
            return None
        return behind_identity(partial(self._call_done, unit), args, kwargs)

    def _begin_forward(self) -> None:
        """A new forward: what an earlier one left gathered goes; a failed one has made no calls."""
        if self._calls.under_way:
            for call in self._graph[self._start :]:
                call.unit.n_calls -= 1
            del self._graph[self._start :]
        self._free_but({ROOT})
        self._open.clear()
        self._start = len(self._graph)
        self._recording = torch.is_grad_enabled()
        self._calls.begin()

    def _call(self, unit: Holding) -> None:
        """Gather a unit and the next ones, and wait for it."""
        unit.gather()
        if self._calls.under_way and unit.pieces:
            self._calls.call(unit.name)
            for name in self._calls.ahead(self._options.prefetch):
                self._units[name].gather()
        unit.arrive()
        counted = self._recording if self._calls.under_way else torch.is_grad_enabled()
        self._open.append(Call(unit, len(self._graph) if counted else None))
        if counted:
            unit.n_calls += 1
            self._graph.append(self._open[-1])

    def _after_forward(self, unit: Holding, _: nn.Module, __: object, output: Any) -> Any:  # noqa: ANN401 - a module's
        if any(unit.owns(tensor) for tensor in tensors_in(output)):
            # A view of a parameter must not outlive it.
            output = replaced(output, lambda t: t.clone() if unit.owns(t) else t)
        if self._in_backward:
            return output
        call = self._open.pop()
        while call.unit is not unit:  # a call that failed, and whose failure was caught
            call = self._open.pop()
        if torch.is_grad_enabled():
            self._watch(call, output)
        if unit is self._root:
            self._end_forward()
        elif not self._stays(unit.name):
            unit.free()
        return output

    def _watch(self, call: Call, output: object) -> None:
        """Be told when the backward comes to this call, by its outputs or by what it left in attributes."""
        tensors = list(tensors_in(output))
        if not tensors and output is not None and call.unit.pieces:
            raise InputError(
                f"unit '{call.unit.name}' returns a {type(output).__name__}: "
                "return tensors, or tuples, lists, dicts or dataclasses of them"
            )
        for tensor in (*tensors, *tensors_left(call.unit.group.module)):
            if tensor.requires_grad and not tensor.is_leaf:
                call.differentiated = True
                tensor.register_hook(partial(self._before_backward, call))

    def _stays(self, name: str) -> bool:
        """Whether a unit is left gathered after a call."""
        if not self._calls.under_way:
            return False
        kept = self._recording and self._options.keep_last and self._calls.closes(name)
        return kept or self._calls.again(name)

    def _end_forward(self) -> None:
        """What was gathered in vain goes; in training the root and the last unit stay."""
        kept = set()
        if self._recording and self._options.keep_last:
            kept = {*self._calls.now[-1:]}
        if self._graph:
            kept.add(ROOT)
        self._free_but(kept)
        self._calls.end()

    def _before_backward(self, call: Call, gradient: torch.Tensor) -> None:  # noqa: ARG002 - a hook's
        """The gradient of a unit's output is there: its backward comes next."""
        if not self._in_backward:
            raise InputError("loss.backward() of a sharded module: call trainer.backward(loss)")
        index = call.index
        if index is None or self._graph[index : index + 1] != [call]:
            raise InputError(
                "a backward through a forward before the last backward or step: "
                "compute the loss again"
            )
        call.unit.reached = True
        call.unit.gather()
        earlier = [other for other in reversed(self._graph[:index]) if other.differentiated]
        for other in earlier[: self._options.prefetch]:
            other.unit.gather()
        call.unit.arrive()

    def _call_done(self, unit: Holding) -> None:
        """The backward of one call is complete."""
        unit.n_calls -= 1
        if unit.n_calls == 0:
            self._finish(unit)

    def _finish(self, unit: Holding) -> None:
        """Free a unit and reduce its gradients, if the backward has come to it."""
        unit.free()
        if unit.trained and (unit.reached or unit.gradient is not None):
            while len(self._under_way) >= self._options.in_flight:
                self._under_way.popleft()()
            self._under_way.append(unit.scatter(next(self._numbers)))
        unit.reached = False

    def _end_backward(self) -> None:
        """Reduce what is left, backwards, the root last; and free all."""
        called = {call.unit.name: call.unit for call in reversed(self._graph)}
        for unit in [*called.values(), *self._units.values()]:
            if unit is not self._root:
                self._finish(unit)
        self._finish(self._root)
        self._graph.clear()
        for unit in self._units.values():
            unit.n_calls = 0

    def _free_but(self, kept: set[str]) -> None:
        for name, unit in self._units.items():
            if name not in kept:
                unit.free()

    def _check(self) -> None:
        if self._broken:
            raise RuntimeFailedError("the last backward failed half-way: shard the module anew")
