"""What the caller of a collective knows and the collective does not: whose tensors it moves, and why."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final, Protocol

from zerosim.kinds import Kind


@dataclass(frozen=True, slots=True)
class Label:
    """None: the tracer finds it out, or it stays unknown.

    `kind` and `elements` are the logical collective's, where others carry it out (an all-to-all for a
    reduce-scatter). `stream` is what the program calls its queue.
    """

    unit: str | None = None
    bucket: int | None = None
    kind: Kind | None = None
    elements: int | None = None
    stream: str | None = None


NOTHING: Final = Label()
"""What those bear that nobody labelled."""
_current: ContextVar[Label] = ContextVar("label", default=NOTHING)


@contextmanager
def labelled(label: Label) -> Iterator[None]:
    """Collectives issued inside, by this thread, bear this label. It costs nothing if nobody traces."""
    token = _current.set(label)
    try:
        yield
    finally:
        _current.reset(token)


def current_label() -> Label:
    """The label that a collective issued now bears."""
    return _current.get()


class StepListener(Protocol):
    """Who wants to know when an optimizer that is not torch's steps."""

    def began(self, optimizer: object) -> None:
        """It begins to update parameters."""

    def ended(self) -> None:
        """It has updated them."""


step_listeners: Final[list[StepListener]] = []
"""Those of this process; empty if nobody traces."""


@contextmanager
def stepping(optimizer: object) -> Iterator[None]:
    """Inside, an optimizer of one's own updates parameters, as torch's tell by their hooks."""
    for listener in step_listeners:
        listener.began(optimizer)
    yield
    for listener in step_listeners:
        listener.ended()
