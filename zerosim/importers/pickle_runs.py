"""Dicts with the same keys, one after another, as histories are written: read at once, column by column."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from zerosim.importers.pickle_machine import Machine
from zerosim.importers.pickle_weights import DICT, NUMBER, PLACE, PUT_ASIDE, entries_weigh

_RECALL: Final = rb"(?:h.|j.{4})"
_OF_RECALLS: Final = rb"\]\x94(?:\(%b{1,256}e|%ba)?" % (_RECALL, _RECALL)
"""Of values that stand elsewhere, as the frames of an event do."""
_VALUE: Final = (
    rb"(?:h.|j.{4}|K.|M..|J.{4}|[N\x88\x89]|\x8a(?:\x05.{5}|\x06.{6}|\x07.{7}|\x08.{8})|%b)"
    % _OF_RECALLS
)
_VALUES: Final = re.compile(_VALUE, re.DOTALL)
_RECALLS: Final = re.compile(_RECALL, re.DOTALL)
_FLAT: Final = re.compile(rb"\}\x94\((%b{2,64})u" % _VALUE, re.DOTALL)
_FEWEST_KEYS: Final = 2
"""`findall` gives no tuples of one group alone."""
_MOST_DICTS: Final = 1000
_MOST_SHAPES: Final = 64
_MOST_FAILURES: Final = 16
_MOST_KNOWN: Final = 2**16
_KEYS: Final = frozenset((str, int))
_HEADS: Final = {b"J": 1, b"\x8a": 2}
"""Signed numbers: how many bytes stand before them."""
_LIST: Final = ord("]")


@dataclass(frozen=True, slots=True)
class _Shape:
    """Dicts of these keys: one of them, its values being groups, and a run of them."""

    keys: tuple[Any, ...]
    one: re.Pattern[bytes]
    run: re.Pattern[bytes]


@dataclass(slots=True)
class Runs:
    """What has been learned of a program: which keys dicts have, and what short instructions push.

    `last`: the keys of the dict before. `failures`: how many runs could not be read after all.
    """

    shape: _Shape | None = None
    last: tuple[bytes, ...] = ()
    shapes: dict[tuple[bytes, ...], _Shape] = field(default_factory=dict)
    known: dict[bytes, Any] = field(default_factory=dict)
    failures: int = 0


def read_run(machine: Machine, runs: Runs, at: int, calm: int) -> int:
    """Push the dicts that begin at byte `at`, if there are several of the same keys before `calm`.

    Where they end; 0, and nothing done, if there are none, or anything about them is odd. What is put
    aside must be a list: then a number means one value for ever.
    """
    shape = runs.shape
    found = shape.run.match(machine.raw, at, calm) if shape else None
    if found is None:
        shape = _learn(machine, runs, at, calm)
        found = shape.run.match(machine.raw, at, calm) if shape else None
    if shape is None or found is None or not isinstance(machine.memo, list):
        return 0
    rows = shape.one.findall(machine.raw, at, found.end())
    before = len(runs.known)
    try:
        columns = [_column(tokens, runs.known, machine.memo) for tokens in zip(*rows, strict=True)]
    except IndexError:  # one of them recalls another one, or what is not there
        runs.failures += 1
        runs.shape = None
        return 0
    table = list(zip(*(values for values, _ in columns), strict=True))
    places = [place for place, (_, has_lists) in enumerate(columns) if has_lists]
    dicts = [dict(zip(shape.keys, values, strict=True)) for values in table]
    machine.stack += dicts
    machine.memo += _put_aside(machine, rows, table, dicts, places)
    machine.spent += len(dicts) * (DICT + PUT_ASIDE + entries_weigh(len(shape.keys)))
    numbers = sum(len(rows) for token in rows[0] if token[:1] in _HEADS)
    machine.spent += NUMBER * (numbers + len(runs.known) - before)
    if len(runs.known) > _MOST_KNOWN:
        runs.known.clear()
    return found.end()


def _put_aside(
    machine: Machine,
    rows: list[tuple[bytes, ...]],
    table: list[tuple[Any, ...]],
    dicts: list[Any],
    places: list[int],
) -> list[Any]:
    """What `rows` put aside, in order: each dict, and after it the lists made for it, at `places`."""
    if not places:
        return dicts
    aside = []
    for tokens, values, made in zip(rows, table, dicts, strict=True):
        aside.append(made)
        for place in places:
            if tokens[place][0] == _LIST:
                aside.append(values[place])
                machine.spent += DICT + PLACE * len(values[place])
    return aside


def _column(
    tokens: tuple[bytes, ...], known: dict[bytes, Any], memo: list[Any]
) -> tuple[list[Any], bool]:
    """The values that `tokens` push, and whether some are lists that are made here.

    Raises IndexError for one that is not there yet.
    """
    head = _HEADS.get(tokens[0][:1])
    if head and len(set(map(len, tokens))) == 1:
        table = np.frombuffer(b"".join(tokens), np.uint8).reshape(len(tokens), -1)
        if (table[:, :head] == table[0, :head]).all():
            width = table.shape[1] - head
            wide = np.zeros((len(tokens), 8), np.uint8)
            wide[:, -width:] = table[:, head:]
            numbers: list[Any] = (wide.view("<i8")[:, 0] >> 8 * (8 - width)).tolist()
            return numbers, False
    new = set(tokens).difference(known)
    known |= {token: _value(token, memo) for token in new if token[0] != _LIST}
    if all(token[0] != _LIST for token in new):
        return list(map(known.__getitem__, tokens)), False
    return [_list(t, known, memo) if t[0] == _LIST else known[t] for t in tokens], True


def _list(token: bytes, known: dict[bytes, Any], memo: list[Any]) -> list[Any]:
    recalls = _RECALLS.findall(token, 2)
    try:
        return list(map(known.__getitem__, recalls))
    except KeyError:
        known |= {recall: _value(recall, memo) for recall in recalls}
        return list(map(known.__getitem__, recalls))


def _value(token: bytes, memo: list[Any]) -> Any:  # noqa: ANN401 - what a program may hold
    code = token[0]
    if code in b"hj":
        return memo[int.from_bytes(token[1:], "little")]
    if code in b"KM":
        return int.from_bytes(token[1:], "little")
    if code in b"N\x88\x89":
        return {0x4E: None, 0x88: True, 0x89: False}[code]
    return int.from_bytes(token[1 if code == ord("J") else 2 :], "little", signed=True)


def _learn(machine: Machine, runs: Runs, at: int, calm: int) -> _Shape | None:
    """The shape of the dict at byte `at`, if its keys are those of the dict before."""
    flat = _FLAT.match(machine.raw, at, calm) if runs.failures < _MOST_FAILURES else None
    tokens = _VALUES.findall(machine.raw, *flat.span(1)) if flat else []
    keys, before, runs.last = tuple(tokens[::2]), runs.last, tuple(tokens[::2])
    if len(keys) < _FEWEST_KEYS or len(tokens) % 2 or keys != before:
        return None
    if keys not in runs.shapes and len(runs.shapes) < _MOST_SHAPES:
        try:
            names = tuple(_value(key, machine.memo) for key in keys)  # type: ignore[arg-type]
        except IndexError:
            return None
        if not _KEYS.issuperset(map(type, names)):
            return None
        one = rb"\}\x94\(" + b"".join(re.escape(key) + b"(%b)" % _VALUE for key in keys) + b"u"
        again = rb"(?:%b){2,%d}" % (one.replace(b"(" + _VALUE, b"(?:" + _VALUE), _MOST_DICTS)
        runs.shapes[keys] = _Shape(names, re.compile(one, re.DOTALL), re.compile(again, re.DOTALL))
    runs.shape = runs.shapes.get(keys)
    return runs.shape
