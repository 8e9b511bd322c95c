"""Pickles as plain values: a machine that builds numbers, texts, lists and dicts, and nothing else.

A pickle is a program. This machine has no instruction that names, calls or fills an object, so the
worst that a hostile one can do is to be refused. Keys are texts or integers: hashing a deep tuple
would overflow the stack of the interpreter, and hashing a knotted one would never end. A faster way
through the same programs is `pickle_stretches`; a test holds both equal.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final

from zerosim.importers import pickle_weights as weights
from zerosim.units import format_bytes

MAX_BYTES: Final = 3 * 2**29
"""The most memory that the values of one pickle may take, as Note [What values weigh] counts it."""
_NAME_BYTES: Final = 60
_LONGEST_INTEGER: Final = 16
_LONGEST_FRAME: Final = 2**32
_ENDS_EARLY: Final = "ends early (interrupted dump?)"


class Refused(Exception):  # noqa: N818 - no error yet: the reader adds file and place
    """Why the machine stops."""


class EndsEarlyError(Refused):
    """The program is cut."""


class Machine:
    """The program, how far it has come, its stack, and what it has put aside by number.

    `memo` is a list as long as the numbers follow each other, each given once. `spent`: bytes of
    Note [What values weigh].
    """

    def __init__(self, raw: bytes) -> None:
        self.raw, self.at, self.begun = raw, 0, 0
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memo: list[Any] | dict[int, Any] = []
        self.spent = 0

    def take(self, size: int) -> bytes:
        """The next `size` bytes of the program."""
        start, self.at = self.at, self.at + size
        if self.at > len(self.raw):
            raise EndsEarlyError(_ENDS_EARLY)
        return self.raw[start : self.at]

    def number(self, size: int) -> int:
        """The next `size` bytes as an unsigned integer."""
        return int.from_bytes(self.take(size), "little")

    def since_mark(self) -> list[Any]:
        """What lies above the last mark; both leave the stack."""
        start = self.marks.pop()
        values = self.stack[start:]
        del self.stack[start:]
        return values

    def top(self, kind: type) -> Any:  # noqa: ANN401 - a list or a dict, as asked
        """The value on top, which must be of `kind` and lie above the last mark."""
        value = self.stack[-1]
        if type(value) is not kind or (self.marks and self.marks[-1] >= len(self.stack)):
            raise Refused("puts a value into what holds none")
        return value

    def remember(self, number: int) -> None:
        """Put the value on top aside as `number`."""
        value = self.stack[-1]
        if isinstance(self.memo, list):
            if number == len(self.memo):
                self.memo.append(value)
                return
            self.memo = dict(enumerate(self.memo))
        self.memo[number] = value


def run_plainly(machine: Machine) -> Any:  # noqa: ANN401 - whatever was pickled
    """The plain value that the program builds. Raises Refused, `machine.begun` being the place."""
    while not step(machine):
        weigh(machine)
    return machine.stack.pop()


def step(machine: Machine) -> bool:
    """Do one instruction. Whether the program ends with it, its value being on the stack."""
    machine.begun = start = machine.at
    if start >= len(machine.raw):
        raise EndsEarlyError(_ENDS_EARLY)
    code = machine.raw[start]
    machine.at = start + 1
    try:
        if code == _STOP:
            return machine.stack[-1] is not machine
        _INSTRUCTIONS.get(code, _unknown)(machine)
    except (IndexError, KeyError):
        raise Refused("takes a value that is not there") from None
    weight = weights.WEIGHTS.get(code)
    machine.spent += (
        weights.RARE + weights.RARE_BYTE * (machine.at - start) if weight is None else weight
    )
    return False


def weigh(machine: Machine) -> None:
    """Raises Refused if its values may take more than MAX_BYTES."""
    open_ = weights.PLACE * len(machine.stack) + weights.MARK * len(machine.marks)
    if machine.spent + open_ > MAX_BYTES:
        raise Refused(
            f"holds values of more than {format_bytes(MAX_BYTES)} (record a shorter time)"
        )


def _unknown(machine: Machine) -> None:
    code = bytes([machine.raw[machine.at - 1]])
    if code in (b"c", b"i"):
        name = ".".join(
            line.decode("ascii", "replace")[:_NAME_BYTES]
            for line in machine.raw[machine.at : machine.at + 4 * _NAME_BYTES].split(b"\n")[:2]
        )
        raise Refused(f"names a global ({name!a}), which would run code")
    if code == b"\x93":
        name = ".".join(str(part)[:_NAME_BYTES] for part in machine.stack[-2:])
        raise Refused(f"names a global ({name!a}), which would run code")
    if code in b"Rob\x81\x82\x83\x84\x92PQ":
        raise Refused("would call or fill an object, which runs code")
    raise Refused(f"has an instruction ({code!r}) that no dump needs")


def _sized(size: int, make: Callable[[bytes], object]) -> Callable[[Machine], None]:
    """Push what `make` makes of the next `size` bytes."""

    def push(machine: Machine) -> None:
        machine.stack.append(make(machine.take(size)))

    return push


def _counted(width: int, make: Callable[[bytes], object]) -> Callable[[Machine], None]:
    """Push what `make` makes of as many bytes as the next `width` bytes say."""

    def push(machine: Machine) -> None:
        machine.stack.append(make(machine.take(machine.number(width))))

    return push


def _always(make: Callable[[], object]) -> Callable[[Machine], None]:
    def push(machine: Machine) -> None:
        machine.stack.append(make())

    return push


def _tuple_of(size: int) -> Callable[[Machine], None]:
    def push(machine: Machine) -> None:
        values = tuple(machine.stack[-size:])
        if len(values) < size:
            raise IndexError
        machine.stack[-size:] = [values]

    return push


def _remember(width: int) -> Callable[[Machine], None]:
    def remember(machine: Machine) -> None:
        machine.remember(machine.number(width))

    return remember


def _recall(width: int) -> Callable[[Machine], None]:
    def recall(machine: Machine) -> None:
        machine.stack.append(machine.memo[machine.number(width)])

    return recall


def _append(machine: Machine) -> None:
    value = machine.stack.pop()
    machine.top(list).append(value)


def _kept(machine: Machine) -> list[Any]:
    values = machine.since_mark()
    machine.spent += weights.PLACE * len(values)
    return values


def _appends(machine: Machine) -> None:
    values = _kept(machine)
    machine.top(list).extend(values)


def _set_item(machine: Machine) -> None:
    value, key = machine.stack.pop(), machine.stack.pop()
    fill(machine.top(dict), [key, value])
    machine.spent += weights.entries_weigh(1)


def _set_items(machine: Machine) -> None:
    values = machine.since_mark()
    fill(machine.top(dict), values)
    machine.spent += weights.entries_weigh(len(values) // 2)


def fill(target: dict[Any, Any], values: list[Any]) -> None:
    """Put keys and values, as they lie on the stack, into `target`."""
    keys = values[::2]
    if len(values) % 2 or not {type(key) for key in keys} <= {str, int}:
        raise Refused("has keys that are neither texts nor integers")
    target.update(zip(keys, values[1::2], strict=True))


def _dict(machine: Machine) -> None:
    filled: dict[Any, Any] = {}
    fill(filled, values := machine.since_mark())
    machine.spent += weights.entries_weigh(len(values) // 2)
    machine.stack.append(filled)


def _gathered(make: Callable[[list[Any]], object]) -> Callable[[Machine], None]:
    def push(machine: Machine) -> None:
        machine.stack.append(make(_kept(machine)))

    return push


def _protocol(machine: Machine) -> None:
    if machine.begun:
        raise Refused("names its protocol, which belongs at the start")
    machine.take(1)


def _frame(machine: Machine) -> None:
    # How long it is, nobody needs to know: all bytes are at hand. A damaged byte may look like one.
    if machine.number(8) >= _LONGEST_FRAME:
        raise Refused("has a frame of unbelievable size")


def _signed(raw: bytes) -> int:
    if len(raw) > _LONGEST_INTEGER:
        raise Refused("has an integer that no dump needs")
    return int.from_bytes(raw, "little", signed=True)


def _unsigned(raw: bytes) -> int:
    return int.from_bytes(raw, "little")


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", errors="backslashreplace")  # paths may hold any bytes


_STOP: Final = ord(".")
_INSTRUCTIONS: Final[dict[int, Callable[[Machine], None]]] = {
    code[0]: instruction
    for code, instruction in (
        (b"\x80", _protocol),
        (b"\x95", _frame),
        (b"(", lambda machine: machine.marks.append(len(machine.stack))),
        (b"N", _always(lambda: None)),
        (b"\x88", _always(lambda: True)),
        (b"\x89", _always(lambda: False)),
        (b"]", _always(list)),
        (b"}", _always(dict)),
        (b")", _always(tuple)),
        (b"K", _sized(1, _unsigned)),
        (b"M", _sized(2, _unsigned)),
        (b"J", _sized(4, _signed)),
        (b"\x8a", _counted(1, _signed)),
        (b"G", _sized(8, lambda raw: struct.unpack(">d", raw)[0])),
        (b"X", _counted(4, _text)),
        (b"\x8c", _counted(1, _text)),
        (b"\x8d", _counted(8, _text)),
        (b"a", _append),
        (b"e", _appends),
        (b"l", _gathered(list)),
        (b"s", _set_item),
        (b"u", _set_items),
        (b"d", _dict),
        (b"t", _gathered(tuple)),
        (b"\x85", _tuple_of(1)),
        (b"\x86", _tuple_of(2)),
        (b"\x87", _tuple_of(3)),
        (b"q", _remember(1)),
        (b"r", _remember(4)),
        (b"\x94", lambda machine: machine.remember(len(machine.memo))),
        (b"h", _recall(1)),
        (b"j", _recall(4)),
    )
}
