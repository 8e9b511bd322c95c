"""Which step an op belongs to: by the mark around it, else by when it was called, else by its number."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from zerosim.importers.execution import linked
from zerosim.importers.execution.nodes import Node
from zerosim.importers.kineto.steps import step_at
from zerosim.importers.recording import Window

_MARK: Final = "ProfilerStep#"
_MOST_DIGITS: Final = 9

# Note [Numbers of nodes]: PyTorch numbers nodes as ops are called, on all threads together. What the
# backward pass calls on its own thread lies below no mark, but its number lies among those of the ops
# below one. A profiler ends a step where it begins the next one, so between two steps that follow each
# other nothing is unclear either. Linkers may number anew; then a node comes before its caller.


@dataclass(frozen=True, slots=True)
class Steps:
    """What the marks of a trace say. `stretches`: (first number, last number, step), ascending.

    `windows` are empty unless a linker timed all marks, `stretches` if numbers are in no order of calls.
    """

    windows: tuple[Window, ...] = ()
    stretches: tuple[tuple[int, int, int], ...] = ()
    marked: bool = False

    def at(self, number: int, moment: int | None) -> int | None:
        """The step in which node `number` was called (at `moment`, in ns, if that is known)."""
        if self.windows and moment is not None:
            return step_at(self.windows, [moment])[0]
        place = bisect_right(self.stretches, number, key=lambda s: s[0]) - 1
        inside = place >= 0 and number <= self.stretches[place][1]
        return self.stretches[place][2] if inside else None


def step_of(name: str) -> int | None:
    """The number in a mark of a step; None if `name` is none."""
    number = name.removeprefix(_MARK) if name.startswith(_MARK) else ""
    fits = number.isascii() and number.isdigit() and len(number) <= _MOST_DIGITS
    return int(number) if fits else None


def read_steps(nodes: Sequence[Node]) -> Steps:
    """What the marks among `nodes` (ascending in number) say. See Note [Numbers of nodes]."""
    marks = [(node, step) for node in nodes if (step := step_of(node.name)) is not None]
    spans = [linked.span(node) for node, _ in marks]
    windows = [Window(step, *span) for (_, step), span in zip(marks, spans, strict=True) if span]
    windows.sort(key=lambda window: (window.start_ns, window.step))
    in_order = all(node.parent <= node.id for node in nodes)
    return Steps(
        tuple(windows) if len(windows) == len(marks) else (),
        tuple(_stretches(nodes, {node.id: step for node, step in marks})) if in_order else (),
        bool(marks),
    )


def _stretches(nodes: Sequence[Node], steps: dict[int, int]) -> list[tuple[int, int, int]]:
    """From each mark (of `steps`, by number) to the last node below it, or to the next step."""
    above: dict[int, int] = {}
    last = dict.fromkeys(steps, 0)
    for node in nodes:
        mark = node.id if node.id in steps else above.get(node.parent)
        if mark is not None:
            above[node.id] = mark
            last[mark] = node.id
    for mark, following in pairwise(steps):
        if steps[following] == steps[mark] + 1:
            last[mark] = following - 1
    return [(mark, last[mark], step) for mark, step in steps.items()]
