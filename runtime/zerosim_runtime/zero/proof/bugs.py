"""Bugs to plant in the library, each of which the proof must notice: lines of its code, written wrong."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Final

import torch

from zerosim.errors import RuntimeFailedError
from zerosim_runtime.zero import even, rows
from zerosim_runtime.zero.even import Even
from zerosim_runtime.zero.holding import Holding
from zerosim_runtime.zero.replicated import Replicated
from zerosim_runtime.zero.sharded import Sharded

_FIRST_SHARDS: Final[dict[int, torch.Tensor]] = {}


@dataclass(frozen=True, slots=True)
class Line:
    """In the function `name` of `owner` (a class or a module), `right` becomes `wrong`."""

    owner: Any
    name: str
    right: str
    wrong: str


@dataclass(frozen=True, slots=True)
class Bug:
    """The lines that are wrong, and a case and a mode in which they are reached."""

    case: str
    mode: str
    lines: tuple[Line, ...]


BUGS: Final[Mapping[str, Bug]] = {
    "missing-mean": Bug(
        "tied", "zero2", (Line(Even, "begin", "buffer.div_(n_ranks)", "buffer.div_(1)"),)
    ),
    "no-reduce": Bug(
        "tied",
        "zero2",
        (
            Line(
                Even,
                "begin",
                "handle = self.channels.reduce_scatter(label, own, buffer, number)",
                "handle = self.channels.all_reduce(label, own, number);"
                " handle.wait(); own.copy_(rows[self.channels.rank])",
            ),
        ),
    ),
    "zero-for-none": Bug(
        "drop",
        "zero2",
        (
            Line(
                Replicated,
                "gradients",
                "self._rows[name] if users[name] else None",
                "self._rows[name]",
            ),
        ),
    ),
    "no-gather-again": Bug(
        "tied",
        "zero1",
        (Line(Replicated, "refresh", "self._split.gather(self._flat, self._gathers)", "pass"),),
    ),
    "no-gather-for-backward": Bug(
        "tied", "zero3-p0", (Line(Sharded, "_before_backward", "call.unit.gather()", "pass"),)
    ),
    "stale-shard": Bug(
        "tied",
        "zero3-p1",
        (
            Line(
                Holding,
                "gather",
                "rows, self.shard)",
                "rows, _FIRST_SHARDS.setdefault(id(self), self.shard.clone()))",
            ),
        ),
    ),
    "lost-padding": Bug("uneven", "zero2", (Line(rows, "lay_rows", "if rest:", "if False:"),)),
    "shared-too-early": Bug(
        "shared-twice",
        "zero3-p1",
        (
            Line(Sharded, "_call_done", "unit.n_calls == 0", "unit.n_calls == 1"),
            Line(Sharded, "_finish", "if unit.trained and", "if unit.reduced is None and"),
        ),
    ),
    "row-order": Bug(
        "tied",
        "zero2",
        (
            Line(
                Even,
                "begin",
                "rows = buffer.view(n_ranks, width)",
                "rows = buffer.view(width, n_ranks).t()",
            ),
        ),
    ),
}
"""A missing 1/ranks, no sum over ranks, a step by zeros of what nobody used, parameters that are not
gathered after the update or for the backward, a shard as it was first, a padded end that is lost, a
shared block finished before its last use, rows in another order than the collective's."""


@contextmanager
def planted(bug: str | None) -> Iterator[None]:
    """The library with a bug in it. Raises RuntimeFailedError if a line is not there any more."""
    with ExitStack() as stack:
        for line in BUGS[bug].lines if bug is not None else ():
            stack.enter_context(_wrong(line))
        yield
    _FIRST_SHARDS.clear()


@contextmanager
def _wrong(line: Line) -> Iterator[None]:
    right = getattr(line.owner, line.name)
    owners = [line.owner, *([even] if line.owner is rows else [])]
    for owner in owners:
        setattr(owner, line.name, _rewritten(right, line))
    try:
        yield
    finally:
        for owner in owners:
            setattr(owner, line.name, right)


def _rewritten(function: Callable[..., Any], line: Line) -> Callable[..., Any]:
    source = textwrap.dedent(inspect.getsource(function))
    if source.count(line.right) != 1:
        raise RuntimeFailedError(
            f"'{line.right}' is not once in {function.__qualname__}: plant the bug anew"
        )
    place = {**function.__globals__, "_FIRST_SHARDS": _FIRST_SHARDS}
    exec(compile(source.replace(line.right, line.wrong), "<planted bug>", "exec"), place)  # noqa: S102 - our own code
    made: Callable[..., Any] = place[function.__name__]
    return made
