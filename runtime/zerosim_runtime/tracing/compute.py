"""When each unit computed: forward and backward spans by global hooks, of any model, unchanged.

# Note [Backward spans]
A unit's backward begins when autograd comes to the node that made its output, and ends when that of the
next unit begins, or autograd ends. Hooks on nodes change no tensor, as hooks on modules' inputs would.
What a unit computes anew inside its backward (activation checkpointing) is a recompute; its backward
begins after that. FSDP waits for a unit's gather between the two hooks of its output, and reduces its
gradients at the end: neither is the unit's computing.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import torch
from torch import nn
from torch.autograd import Variable
from torch.nn.modules import module as torch_modules
from torch.nn.parallel import DistributedDataParallel

from zerosim.kinds import PREFIX, Kind
from zerosim_runtime.tracing.models import Models
from zerosim_runtime.tracing.replicas import Reducers
from zerosim_runtime.tracing.spans import Span
from zerosim_runtime.tracing.steps import Steps
from zerosim_runtime.tracing.worker_times import current_graph, in_backward

_now: Final = time.perf_counter_ns
_compiling: Final = torch.compiler.is_compiling
_thread: Final = threading.get_ident
_engine: Final[Any] = Variable._execution_engine  # noqa: SLF001 - torch has no public way
_STREAM: Final = "compute"
_MAX_HELD: Final = 1000


@dataclass(slots=True)
class Open:
    """A span that has begun."""

    kind: Kind
    unit: str
    start_ns: int
    module: int = 0
    settled: bool = True
    """False: FSDP2 gathers it first; it computes from its first part on."""


@dataclass(slots=True)
class Compute:
    """The spans of the thread that trains. `at_step` is told when a step begins."""

    add: Callable[[Span], None]
    models: Models
    steps: Steps
    reducers: Reducers
    at_step: Callable[[], None] = lambda: None
    thread: int = field(default_factory=threading.get_ident)
    forward: Open | None = None
    backward: Open | None = None
    graphs: set[int] = field(default_factory=set)
    done: list[tuple[Open, int, int | None, int | None]] = field(default_factory=list)
    """What has ended, when, in which step and micro-batch: made to spans when they are written."""
    sample: Callable[[], None] | None = None
    beat: Callable[[int], None] = lambda _: None
    """Told that the rank moves on."""

    def unit(self) -> str | None:
        """The unit that computes now."""
        running = self.forward or self.backward
        return None if running is None else running.unit

    def hook(self) -> Callable[[], None]:
        """Hook all modules. Returns what unhooks them."""
        before = torch_modules.register_module_forward_pre_hook(self._begin)
        after = torch_modules.register_module_forward_hook(self._end, always_call=True)

        def unhook() -> None:
            before.remove()
            after.remove()

        return unhook

    def _begin(self, module: nn.Module, _: Any) -> None:  # noqa: ANN401 - any inputs
        if _compiling() or _thread() != self.thread:
            return
        place = self.models.places.get(id(module))
        if place is None or place.module() is not module:
            place = self.models.learn(module)
        if (
            place.root
            and torch.is_grad_enabled()
            and module.training
            and not in_backward()
            and self.steps.forward()
        ):
            self.at_step()
        running = self.forward
        if running is not None:
            if not running.settled:
                running.start_ns, running.settled = _now(), True
            return
        if place.unit is None:
            return
        now = _now()
        self.beat(now)
        kind = Kind.FORWARD
        if in_backward():
            kind = Kind.RECOMPUTE
            if self.backward is not None and self.backward.unit == place.unit:
                now = self.backward.start_ns
            else:
                self._close_backward(now)
        self.forward = Open(kind, place.unit, now, id(module), not place.sharded)
        if self.sample is not None:
            self.sample()

    def _end(self, module: nn.Module, _: Any, output: Any) -> None:  # noqa: ANN401 - any inputs and outputs
        if _compiling() or _thread() != self.thread:
            return
        if id(module) in self.models.replicas and isinstance(module, DistributedDataParallel):
            self.reducers.refresh(module)
        running = self.forward
        if running is None or running.module != id(module):
            return
        now = _now()
        self.forward = None
        self._add(running, now)
        if self.sample is not None:
            self.sample()
        if running.kind is Kind.RECOMPUTE:
            if self.backward is None or self.backward.unit == running.unit:
                self.backward = Open(Kind.BACKWARD, running.unit, now)
                self._expect_end()
            return
        for tensor in _tensors(output):
            self._follow(tensor, running.unit)

    def reduced(self) -> None:
        """An engine reduces what a backward has made: the unit has computed."""
        self._close_backward(_now())

    def _follow(self, tensor: torch.Tensor, unit: str) -> None:
        def arrive(_: torch.Tensor) -> None:
            if self.backward is not None and self.backward.unit != unit:
                self._close_backward(_now())

        def begin(_: Any) -> None:  # noqa: ANN401 - gradients
            self.steps.backward()
            if self.backward is None:
                self.backward = Open(Kind.BACKWARD, unit, _now())
                self._expect_end()
                if self.sample is not None:
                    self.sample()

        if tensor.grad_fn is not None:
            tensor.register_hook(arrive)
            tensor.grad_fn.register_prehook(begin)

    def _expect_end(self) -> None:
        graph = current_graph()
        if graph not in self.graphs:
            self.graphs = {graph}
            _engine.queue_callback(lambda: self._close_backward(_now()))

    def _close_backward(self, now: int) -> None:
        running, self.backward = self.backward, None
        if running is not None:
            self._add(running, now)

    def hand_over(self) -> None:
        """Add the spans of what has ended; see Note [Little per collective]."""
        done, self.done = self.done, []
        for span, end_ns, step, micro_batch in done:
            self.add(
                Span(
                    kind=span.kind.value,
                    name=f"{PREFIX[span.kind]}{span.unit}",
                    stream=_STREAM,
                    issued_ns=span.start_ns,
                    start_ns=span.start_ns,
                    end_ns=max(end_ns, span.start_ns),
                    unit=span.unit,
                    step=step,
                    micro_batch=micro_batch,
                )
            )

    def _add(self, span: Open, end_ns: int) -> None:
        self.done.append((span, end_ns, self.steps.step, self.steps.micro_batch))
        if len(self.done) > _MAX_HELD:
            self.hand_over()


def _tensors(output: Any) -> list[torch.Tensor]:  # noqa: ANN401 - any output
    if isinstance(output, torch.Tensor):
        return [output]
    if isinstance(output, dict):
        output = list(output.values())
    if isinstance(output, list | tuple):
        return [tensor for each in output for tensor in _tensors(each)]
    return []
