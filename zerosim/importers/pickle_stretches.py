"""The fast way beside the pickle machine: what most of a dump consists of is done where it is met.

A stretch of instructions begins so far from the end of the program that none of it is cut. What is rare,
and whatever about an instruction is odd, is left to `step`, which does it or says what is wrong.
"""

from __future__ import annotations

from struct import Struct
from typing import Any, Final

from zerosim.importers.collecting import no_collection
from zerosim.importers.pickle_machine import Machine, run_plainly, step, weigh
from zerosim.importers.pickle_runs import Runs, read_run
from zerosim.importers.pickle_weights import DICT, NUMBER, PUT_ASIDE, entries_weigh

_STRETCH: Final = 256
_LONGEST: Final = 16
"""No instruction that is done here takes more bytes."""
_TWO: Final = Struct("<H").unpack_from
_FOUR: Final = Struct("<I").unpack_from
_INT: Final = Struct("<i").unpack_from
_RECALL, _RECALL_LONG, _MEMOIZE, _MARK, _DICT, _SET_ITEMS = b"hj\x94(}u"
_BYTE, _SHORT, _SIGNED, _LONG = b"KMJ\x8a"
_MOST: Final = 8
"""Bytes of an integer that is read here."""
_KEYS: Final = frozenset((str, int))


def run(machine: Machine) -> Any:  # noqa: ANN401 - whatever was pickled
    """The plain value that the program builds. Raises Refused, `machine.begun` being the place."""
    calm = len(machine.raw) - _STRETCH * _LONGEST
    runs = Runs()
    with no_collection():
        while machine.at < calm:
            if _stretch(machine, runs, calm):
                return machine.stack.pop()
            weigh(machine)
        return run_plainly(machine)


def _stretch(machine: Machine, runs: Runs, calm: int) -> bool:  # noqa: C901, PLR0912, PLR0915 - a call costs more than what it would do
    """Do some instructions. Whether the program ends with them, its value being on the stack."""
    raw, stack, marks, memo = machine.raw, machine.stack, machine.marks, machine.memo
    push, at, spent = stack.append, machine.at, 0
    try:
        for _ in range(_STRETCH):
            code = raw[at]
            if code == _RECALL:
                push(memo[raw[at + 1]])
                at += 2
            elif code == _RECALL_LONG:
                push(memo[_FOUR(raw, at + 1)[0]])
                at += 5
            elif code == _BYTE:
                push(raw[at + 1])
                at += 2
            elif code == _LONG and raw[at + 1] <= _MOST:
                end = at + 2 + raw[at + 1]
                push(int.from_bytes(raw[at + 2 : end], "little", signed=True))
                spent += NUMBER
                at = end
            elif code == _SIGNED:
                push(_INT(raw, at + 1)[0])
                spent += NUMBER
                at += 5
            elif code == _SHORT:
                push(_TWO(raw, at + 1)[0])
                spent += NUMBER
                at += 3
            elif code == _MARK:
                marks.append(len(stack))
                at += 1
            elif code == _DICT:
                if type(memo) is list and (end := read_run(machine, runs, at, calm)):
                    at = end
                    continue
                push({})
                spent += DICT
                at += 1
            elif code == _MEMOIZE and type(memo) is list:
                memo.append(stack[-1])
                spent += PUT_ASIDE
                at += 1
            elif code == _SET_ITEMS and (entries := _set_items(stack, marks)) is not None:
                spent += entries_weigh(entries)
                at += 1
            else:
                machine.at = at
                if step(machine):
                    return True
                at, memo = machine.at, machine.memo
                if at >= calm:
                    break
    except (IndexError, KeyError):
        machine.at = at
        return step(machine)  # it says what is wrong
    finally:
        machine.spent += spent
    machine.at = at
    return False


def _set_items(stack: list[Any], marks: list[int]) -> int | None:
    """Put what lies above the last mark into the dict below; None, and nothing done, if that is odd."""
    begin = marks[-1]
    if not 0 < begin <= len(stack) or type(stack[begin - 1]) is not dict:
        return None
    keys, values = stack[begin::2], stack[begin + 1 :: 2]
    if len(keys) != len(values) or (len(marks) > 1 and marks[-2] >= begin):
        return None
    if not _KEYS.issuperset(map(type, keys)):
        return None
    stack[begin - 1].update(zip(keys, values, strict=True))
    del stack[begin:]
    marks.pop()
    return len(keys)
