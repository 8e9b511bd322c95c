"""Pickled dumps as plain values; nothing that a file names is ever loaded or run."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final

from zerosim.errors import TraceFileError
from zerosim.importers.content import Content
from zerosim.importers.pickle_machine import EndsEarlyError, Machine, Refused, fill
from zerosim.importers.pickle_stretches import run

_OPEN_AT_A_LIST: Final = 2
"""How many marks are open while a list in the outermost dict is filled."""


def is_pickle(raw: bytes) -> bool:
    """Whether `raw` begins like a pickle of protocol 2 or later (earlier ones bear no sign)."""
    return raw[:1] == b"\x80" and raw[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05")


def parse_pickle(content: Content) -> Any:  # noqa: ANN401 - whatever the file holds, like json.loads
    """The plain value in `content`. Raises TraceFileError, with the byte, for all that is more.

    Reading it never runs, imports or calls anything that the file names.
    """
    machine = Machine(content.raw)
    try:
        return run(machine)
    except Refused as refusal:
        raise TraceFileError(
            f"'{content.path}' is a pickle that {refusal}, at byte {machine.begun}:"
            " it is never loaded; dump it again"
        ) from None


def salvage_pickle(content: Content) -> dict[Any, Any] | None:
    """Of a dict in a pickle that ends early, what came whole, with the list that was being filled.

    None if the pickle is whole, or if it is not the end that is missing, or nothing can be kept.
    """
    machine = Machine(content.raw)
    try:
        run(machine)
    except EndsEarlyError:
        with suppress(Refused, IndexError):
            return _closed(machine)
    except Refused:
        return None
    return None


def _closed(machine: Machine) -> dict[Any, Any] | None:
    """The outermost dict, with the values above it; of the list being filled, its whole values."""
    stack, marks = machine.stack, machine.marks
    if len(marks) < _OPEN_AT_A_LIST or marks[0] != 1 or type(stack[0]) is not dict:
        return None
    root, first = stack[0], marks[1]
    if type(stack[first - 1]) is not list:
        return None
    end = marks[2] - 1 if len(marks) > _OPEN_AT_A_LIST else len(stack)
    stack[first - 1].extend(stack[first:end])
    fill(root, stack[1:first])
    return root
