"""What one forward and backward of a module does: segments in order of use, counted op by op.

# Note [Whose backward it is]
Autograd numbers its nodes as the forward makes them. The number at which each module was entered
and left is noted, so that an op of the backward belongs to the module that made its node. What a
checkpoint of the model's own computes again belongs to the module whose backward asked for it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

from zerosim_runtime.extraction.attention import watched_attention
from zerosim_runtime.extraction.live import Live
from zerosim_runtime.extraction.segments import Call, Segment
from zerosim_runtime.extraction.units import Wrapped

_NO_TRAFFIC: Final = frozenset({"detach", "empty", "empty_like", "empty_strided", "new_empty"})
_ROWS: Final = frozenset({"embedding", "index", "index_select", "gather"})
"""These read no more than they write."""
_ACCUMULATES: Final = 2**63
"""From here on autograd numbers the nodes that add a gradient to its parameter."""


@dataclass(frozen=True, slots=True)
class _Context:
    """Where an op belongs; `attention`: its FLOPs are already counted by its shapes."""

    segment: Segment
    call: Call
    attention: bool = False


_ATTENTION_BACKWARD: Final = 3
"""Kernels of FlashAttention-2's backward: rows of output · gradient, the main one, a cast."""


class Counter(TorchDispatchMode):
    """Counts while it is active; `segments` is the answer."""

    def __init__(self, root: nn.Module, units: tuple[Wrapped, ...], given: object) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch's own
        self.segments: list[Segment] = []
        self._root = root
        self._unit_of = {id(unit.module): i for i, unit in enumerate(units)}
        self._paths = {id(m): path for path, m in root.named_modules()}
        self._parameters = {_storage(p): id(p) for p in root.parameters()}
        held = [*root.parameters(), *root.buffers(), *_tensors(given)]
        sizes = {id(p): p.numel() * p.element_size() for p in root.parameters() if p.requires_grad}
        self._live = Live({_storage(tensor) for tensor in held}, sizes)
        self._kept: set[int] = set()
        self._running: _Context
        self._stack: list[tuple[int, int, nn.Module]] = []
        self._n_calls = 0
        self._numbers: list[int] = []
        self._contexts: list[_Context] = []
        self.in_attention = False
        self._in_backward = False

    @contextmanager
    def hooked(self, root: nn.Module) -> Iterator[None]:
        """Watch every module's forward, what autograd saves, and calls of attention."""
        handles = []
        for module in root.modules():
            handles += [
                module.register_forward_pre_hook(self._enter, prepend=True, with_kwargs=True),
                module.register_forward_hook(self._leave, always_call=True),
            ]
        saved = torch.autograd.graph.saved_tensors_hooks(self._pack, lambda tensor: tensor)
        try:
            with saved, watched_attention(self):
                yield
        finally:
            for handle in handles:
                handle.remove()

    def backward(self, outputs: list[torch.Tensor]) -> None:
        """Run the backward from `outputs`, each with a gradient of ones, counting it."""
        ones = [torch.ones_like(output) for output in outputs]
        self._in_backward, self._running = True, self._contexts[-1]
        self._live.end_forward([*outputs, *ones])
        trained: list[Any] = [p for p in self._root.parameters() if p.requires_grad]
        handles = [p.register_post_accumulate_grad_hook(self._arrive) for p in trained]
        try:
            with self:
                torch.autograd.backward(outputs, ones)
        finally:
            for handle in handles:
                handle.remove()

    def __torch_dispatch__(
        self,
        func: Any,  # noqa: ANN401 - torch's own signature
        types: Any,  # noqa: ANN401 - same
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401 - same
        """Carry out one op, and count it where it belongs."""
        del types
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        if func is torch.ops.prim.device.default:
            return out
        packet = func._overloadpacket  # noqa: SLF001 - as torch's own counter does
        context = self._context()
        if not self._in_backward:
            context.segment.used.update(
                number
                for tensor in _tensors((args, kwargs))
                if (number := self._parameters.get(_storage(tensor))) is not None
            )
        if packet in flop_registry:
            flops = 0 if context.attention else flop_registry[packet](*args, **kwargs, out_val=out)
            self._add(context.call, flops)
            context.segment.kernels[self._in_backward] += not context.attention
        elif not func.is_view and packet.__name__ not in _NO_TRAFFIC and not context.attention:
            touched = (out, out) if packet.__name__ in _ROWS else (args, kwargs, out)
            nbytes = sum(t.numel() * t.element_size() for t in _tensors(touched))
            context.segment.traffic_bytes[self._in_backward] += nbytes
            context.segment.kernels[self._in_backward] += 1
        self._live.see(_tensors(out))
        if self._in_backward:
            last = context.segment is self._contexts[-1].segment
            self._live.measure_backward(context.segment, last=last)
        else:
            self._live.measure_forward(context.segment)
        return out

    @contextmanager
    def attention(self, flops: int, masked_flops: int, *, backward: bool) -> Iterator[None]:
        """One call of attention, counted as a whole: what runs inside is not counted again."""
        context = self._context()
        call, segment = context.call, context.segment
        segment.attention_flops += flops
        segment.kernels[0] += 1
        segment.kernels[1] += _ATTENTION_BACKWARD if backward else 0
        call.forward_flops += flops
        call.masked_flops += masked_flops
        if backward:
            # Four products of the forward's size against its two; a fused kernel recomputes a fifth.
            call.backward_flops += 2 * flops
        self.in_attention = True
        self._note()
        try:
            yield
        finally:
            self.in_attention = False
            self._note()

    def _arrive(self, parameter: torch.Tensor) -> None:
        """A gradient is complete: it is its parameter's from now on."""
        self._live.made(id(parameter), self._running.segment)

    def _add(self, call: Call, flops: int) -> None:
        if self._in_backward:
            call.backward_flops += flops
        else:
            call.forward_flops += flops

    def _context(self) -> _Context:
        """Of the op that is running: by its node in the backward, else by the modules around it."""
        if self._in_backward:
            node: Any = torch._C._current_autograd_node()  # noqa: SLF001 - no public way
            number = -1 if node is None else node._sequence_nr()  # noqa: SLF001 - same
            if number < _ACCUMULATES:  # a sum of gradients goes with what made the last of them
                at = max(0, bisect_right(self._numbers, number) - 1)
                if self._contexts[at].segment is not self._running.segment:
                    self._live.end_backward(self._running.segment)
                self._running = self._contexts[at]
            return self._running
        return self._here()

    def _here(self) -> _Context:
        segment = self._segment()
        return _Context(segment, self._call(segment), self.in_attention)

    def _segment(self) -> Segment:
        unit, call, _ = self._stack[-1]
        if not self.segments or self.segments[-1].call != call:
            self.segments.append(Segment(unit, call))
        return self.segments[-1]

    def _call(self, segment: Segment) -> Call:
        """The innermost module that was entered in this segment, else the one before, else nobody's."""
        for _, _, module in reversed(self._stack):
            for known in segment.calls:
                if known.module is module:
                    return known
        if not segment.calls:
            segment.calls.append(Call("", None))
        return segment.calls[-1]

    def _note(self) -> None:
        self._numbers.append(torch._C._autograd._get_sequence_nr())  # noqa: SLF001 - no public way
        self._contexts.append(self._here())

    def _enter(self, module: nn.Module, args: object, kwargs: object) -> None:
        if id(module) in self._unit_of:
            self._n_calls += 1
            self._stack.append((self._unit_of[id(module)], self._n_calls, module))
            if self._unit_of[id(module)]:
                entering = (t for t in _tensors((args, kwargs)) if t.is_floating_point())
                self._segment().inputs += sum(t.numel() for t in entering)
        else:
            unit, call, _ = self._stack[-1]
            self._stack.append((unit, call, module))
        if _has_own(module):
            segment = self._segment()
            if all(known.module is not module for known in segment.calls):
                segment.calls.append(Call(self._paths[id(module)], module))
            self._note()

    def _leave(self, module: nn.Module, args: object, output: object) -> None:
        del module, args, output
        self._stack.pop()
        if self._stack:
            self._note()

    def _pack(self, tensor: torch.Tensor) -> torch.Tensor:
        storage = _storage(tensor)
        if storage not in self._kept and storage not in self._live.held and self._stack:
            # Autograd holds it until its backward, so no other storage gets its number before.
            self._kept.add(storage)
            kept = self._segment().kept
            elements = tensor.untyped_storage().nbytes() // tensor.element_size()
            kept[tensor.dtype] = kept.get(tensor.dtype, 0) + elements
        return tensor.detach()  # a saved output that is itself would keep itself alive


def _has_own(module: nn.Module) -> bool:
    return any(p is not None for p in module._parameters.values())  # noqa: SLF001 - no public way


def _storage(tensor: torch.Tensor) -> int:
    number: int = tensor.untyped_storage()._cdata  # noqa: SLF001 - fake storages have no address
    return number


def _tensors(tree: object) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]
