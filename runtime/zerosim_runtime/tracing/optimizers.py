"""When optimizers step, by torch's global hooks."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from zerosim.kinds import PREFIX, Kind
from zerosim_runtime.tracing.labels import step_listeners
from zerosim_runtime.tracing.spans import Span
from zerosim_runtime.tracing.steps import Steps

_now: Final = time.perf_counter_ns


@dataclass(slots=True)
class Optimizers:
    """The spans of the thread that trains. `after` is told when one has stepped.

    An optimizer that steps another one (ZeroRedundancyOptimizer) only waits: the inner one computes.
    """

    add: Callable[[Span], None]
    steps: Steps
    after: Callable[[], None]
    thread: int = field(default_factory=threading.get_ident)
    under_way: list[tuple[int, int]] = field(default_factory=list)
    inner: bool = False

    def hook(self) -> Callable[[], None]:
        """Hook all optimizers. Returns what unhooks them."""
        before = register_optimizer_step_pre_hook(self._begin)
        after = register_optimizer_step_post_hook(self._end)
        step_listeners.append(self)

        def unhook() -> None:
            step_listeners.remove(self)
            before.remove()
            after.remove()

        return unhook

    def began(self, optimizer: object) -> None:
        """An optimizer that is not torch's begins to step."""
        self._begin(optimizer, (), {})

    def ended(self) -> None:
        """An optimizer that is not torch's has stepped."""
        self._end()

    def _begin(self, optimizer: object, _: Any, __: Any) -> None:  # noqa: ANN401 - any arguments
        if threading.get_ident() != self.thread:
            return
        if any(known == id(optimizer) for known, _ in self.under_way):
            # Its last step raised, and so never ended.
            self.under_way.clear()
        self.under_way.append((id(optimizer), _now()))
        self.inner = False

    def _end(self, *_: Any) -> None:  # noqa: ANN401 - any arguments
        if threading.get_ident() != self.thread or not self.under_way:
            return
        (__, start), now = self.under_way.pop(), _now()
        if not self.inner:
            self.steps.optimizer()
            self.add(self._span(start, now))
        self.inner = bool(self.under_way)
        if not self.under_way:
            self.after()

    def _span(self, start_ns: int, end_ns: int) -> Span:
        return Span(
            kind=Kind.OPTIMIZER.value,
            name=PREFIX[Kind.OPTIMIZER],
            stream="compute",
            issued_ns=start_ns,
            start_ns=start_ns,
            end_ns=end_ns,
            step=self.steps.step,
        )
