"""DeepSpeed's coordinator: which knob decides when a parameter is gathered, kept and dropped.

# Note [The trace]
Each module calls `fetch` before it runs and `release` after, in the forward and in the backward. The
first forward and backward are only recorded: every module gathers what it lacks and drops all it has.
From then on the recorded trace tells what comes next, and three knobs say what to do with it:

- `prefetch_bucket_size`: how many elements `fetch` gathers ahead of use; the last parameter may
  overshoot. What is gathered already is passed over, and *marked* for that later use.
- `max_live_parameters`: elements gathered at most, but for prefetching only. What a module needs now
  is always gathered, and nothing is ever dropped to make room.
- `max_reuse_distance`: `release` looks so many elements ahead in the trace, module by module (the one
  that crosses the limit still counts), and keeps what comes again within them. Above the size of
  the model (the default is 1e9) the backward gathers nothing again.

`release` also keeps what is marked for a later use, what another running module holds, and the
persistent parameters (`param_persistence_threshold`). The trace ends with the backward: nothing is
kept for the next forward. After deepspeed/runtime/zero/partitioned_param_coordinator.py of 0.19.8.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from zerosim.errors import ScenarioError
from zerosim.schedules.deepspeed3.modules import Node
from zerosim.schedules.deepspeed3.reuse import Uses, again, uses_of

_NEVER: Final = -1


@dataclass(slots=True)
class Coordinator:
    """What is gathered, and what to gather and drop next. `numel`: elements of each parameter.

    `trace`: modules in the order they were fetched; `complete`: recorded to its end; `step`: how many
    were fetched in this micro-batch; `n_live`: elements gathered, as the engine counts them; `queue`:
    (parameter, step) still to come; `marked`: the latest step each parameter was fetched for;
    `users`: modules running with it; `running`: modules whose backward is not over; `decided`: what a
    module drops at a step, which the engine works out once and remembers; `indexed`: the complete
    trace, to look things up in.
    """

    numel: tuple[int, ...]
    persistent: frozenset[int]
    prefetch_bucket_size: int
    max_live_parameters: int
    max_reuse_distance: int
    gathered: set[int] = field(default_factory=set)
    trace: list[Node] = field(default_factory=list)
    complete: bool = False
    step: int = 0
    n_live: int = 0
    queue: deque[tuple[int, int]] = field(default_factory=deque)
    marked: dict[int, int] = field(default_factory=dict)
    users: dict[int, set[str]] = field(default_factory=dict)
    running: dict[str, Node] = field(default_factory=dict)
    decided: dict[tuple[str, int], frozenset[int]] = field(default_factory=dict)
    indexed: dict[bool, Uses] = field(default_factory=dict)

    def restart(self) -> None:
        """A forward begins; the trace is complete if one was recorded (reset_step)."""
        self.complete = bool(self.trace)
        self.queue = deque(self.uses())
        self.marked, self.step, self.n_live = {}, 0, 0

    def uses(self) -> list[tuple[int, int]]:
        """(parameter, step) of every use in the trace."""
        return [(p, step) for step, node in enumerate(self.trace) for p in sorted(node.fetched)]

    def fetch(self, node: Node, *, forward: bool) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Before a module runs: the parameters to gather for it now, and those to gather ahead."""
        if not self.complete:
            self.trace.append(node)
        if not forward:
            self.running[node.name] = node
        needed = self._gather(p for p in node.fetched if p not in self.gathered)
        for p in node.fetched:
            self.users.setdefault(p, set()).add(node.name)
        ahead = self._ahead(node) if self.complete else ()
        self.step += 1
        return needed, ahead

    def release(self, node: Node, *, forward: bool) -> tuple[int, ...]:
        """After a module has run: the parameters to drop."""
        going = self._going(node) if self.complete else frozenset(node.fetched)
        if not forward:
            self.running.pop(node.name, None)
        return self._drop(node, going)

    def leftovers(self) -> tuple[int, ...]:
        """After the backward: drops for the modules whose own release never came."""
        dropped: list[int] = []
        while self.running:
            _, node = self.running.popitem()
            dropped += self._drop(node, frozenset(node.fetched) - self.persistent)
        return tuple(dropped)

    def partition_all(self) -> tuple[int, ...]:
        """Before the optimizer: drops everything, the persistent parameters too."""
        dropped = tuple(sorted(self.gathered))
        self.gathered.clear()
        self.users.clear()
        return dropped

    def keep_persistent(self) -> None:
        """After the optimizer the persistent parameters are gathered again, outside the count."""
        self.gathered |= self.persistent

    def _ahead(self, node: Node) -> tuple[int, ...]:
        new = {p for p in node.fetched if self.marked.get(p, _NEVER) < self.step}
        passed: set[int] = set()
        while self.queue and len(passed) < len(new):
            p, used_at = self.queue.popleft()
            self.marked[p] = used_at
            passed.add(p)
        if passed != new:
            raise ScenarioError(
                f"DeepSpeed would stop with a tracing error at module '{node.name}': its prefetch "
                "lost the order of the trace; give another prefetch_bucket_size"
            )
        room = min(self.max_live_parameters - self.n_live, self.prefetch_bucket_size)
        chosen: dict[int, int] = {}
        size = 0
        while self.queue and size < room:
            p, used_at = self.queue.popleft()
            self.marked[p] = max(self.marked.get(p, _NEVER), used_at)
            if p not in self.gathered and p not in chosen:
                chosen[p] = self.numel[p]
                size += self.numel[p]
        return self._gather(chosen)

    def _going(self, node: Node) -> frozenset[int]:
        place = node.name, self.step
        if place not in self.decided:
            marked = {p for p in node.fetched if self.marked.get(p, _NEVER) > self.step}
            going = set(node.fetched) - self.persistent - marked - self._reused(node)
            self.decided[place] = frozenset(going)
        return self.decided[place]

    def _reused(self, node: Node) -> set[int]:
        """Its parameters that the next modules use, up to the reuse distance. A leaf looks into them."""
        if node.leaf not in self.indexed:
            self.indexed[node.leaf] = uses_of(self.trace, self.numel, recurse=node.leaf)
        uses = self.indexed[node.leaf]
        return again(uses, node.fetched, self.step, self.max_reuse_distance)

    def _gather(self, parameters: Iterable[int]) -> tuple[int, ...]:
        chosen = tuple(parameters)
        self.gathered.update(chosen)
        self.n_live += sum(self.numel[p] for p in chosen)
        return chosen

    def _drop(self, node: Node, going: frozenset[int]) -> tuple[int, ...]:
        for p in node.fetched:
            self.users.get(p, set()).discard(node.name)
        dropped = tuple(
            p for p in node.fetched if p in going & self.gathered and not self.users.get(p)
        )
        self.gathered.difference_update(dropped)
        self.n_live -= sum(self.numel[p] for p in dropped)
        return dropped
