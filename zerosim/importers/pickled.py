"""Pickles as plain values: a machine that builds numbers, texts, lists and dicts, and nothing else.

A pickle is a program. This machine has no instruction that names, calls or fills an object, so the
worst that a hostile one can do is to be refused. Keys are texts or integers: hashing a deep tuple
would overflow the stack of the interpreter, and hashing a knotted one would never end.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final

from zerosim.errors import TraceFileError
from zerosim.importers.content import Content

MAX_VALUES: Final = 2**25
"""The most instructions of one pickle; at about 64 bytes each they keep below 2 GiB."""
_NAME_BYTES: Final = 60
_LONGEST_INTEGER: Final = 16


class _Refused(Exception):  # noqa: N818 - no error yet: the reader adds file and place
    """Why the machine stops."""


class _Machine:
    """The program, how far it has come, its stack, and what it has put aside by number."""

    def __init__(self, raw: bytes) -> None:
        self.raw, self.at = raw, 0
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memo: dict[int, Any] = {}

    def take(self, size: int) -> bytes:
        """The next `size` bytes of the program."""
        start, self.at = self.at, self.at + size
        if self.at > len(self.raw):
            raise _Refused("ends early (interrupted dump?)")
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
            raise _Refused("puts a value into what holds none")
        return value


def is_pickle(raw: bytes) -> bool:
    """Whether `raw` begins like a pickle of protocol 2 or later (earlier ones bear no sign)."""
    return raw[:1] == b"\x80" and raw[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05")


def parse_pickle(content: Content) -> Any:  # noqa: ANN401 - whatever the file holds, like json.loads
    """The plain value in `content`. Raises TraceFileError, with the byte, for all that is more.

    Reading it never runs, imports or calls anything that the file names.
    """
    raw, start = content.raw, 0
    machine = _Machine(raw)
    try:
        for _ in range(MAX_VALUES):
            start = machine.at
            code = raw[start]
            machine.at = start + 1
            if code == _STOP:
                return machine.stack.pop()
            _INSTRUCTIONS.get(code, _unknown)(machine)
    except _Refused as refusal:
        reason = str(refusal)
    except (IndexError, KeyError):
        early = start >= len(raw)
        reason = "ends early (interrupted dump?)" if early else "takes a value that is not there"
    else:
        reason = f"holds more than {MAX_VALUES} values"
    raise TraceFileError(
        f"'{content.path}' is a pickle that {reason}, at byte {start}: it is never loaded; dump it again"
    )


def _unknown(machine: _Machine) -> None:
    code = bytes([machine.raw[machine.at - 1]])
    if code in (b"c", b"i"):
        name = ".".join(
            line.decode("ascii", "replace")[:_NAME_BYTES]
            for line in machine.raw[machine.at : machine.at + 4 * _NAME_BYTES].split(b"\n")[:2]
        )
        raise _Refused(f"names a global ({name!a}), which would run code")
    if code == b"\x93":
        name = ".".join(str(part)[:_NAME_BYTES] for part in machine.stack[-2:])
        raise _Refused(f"names a global ({name!a}), which would run code")
    if code in b"Rob\x81\x82\x83\x84\x92PQ":
        raise _Refused("would call or fill an object, which runs code")
    raise _Refused(f"has an instruction ({code!r}) that no dump needs")


def _sized(size: int, make: Callable[[bytes], object]) -> Callable[[_Machine], None]:
    """Push what `make` makes of the next `size` bytes."""

    def push(machine: _Machine) -> None:
        machine.stack.append(make(machine.take(size)))

    return push


def _counted(width: int, make: Callable[[bytes], object]) -> Callable[[_Machine], None]:
    """Push what `make` makes of as many bytes as the next `width` bytes say."""

    def push(machine: _Machine) -> None:
        machine.stack.append(make(machine.take(machine.number(width))))

    return push


def _always(make: Callable[[], object]) -> Callable[[_Machine], None]:
    def push(machine: _Machine) -> None:
        machine.stack.append(make())

    return push


def _tuple_of(size: int) -> Callable[[_Machine], None]:
    def push(machine: _Machine) -> None:
        values = tuple(machine.stack[-size:])
        if len(values) < size:
            raise IndexError
        machine.stack[-size:] = [values]

    return push


def _remember(width: int) -> Callable[[_Machine], None]:
    def remember(machine: _Machine) -> None:
        machine.memo[machine.number(width)] = machine.stack[-1]

    return remember


def _recall(width: int) -> Callable[[_Machine], None]:
    def recall(machine: _Machine) -> None:
        machine.stack.append(machine.memo[machine.number(width)])

    return recall


def _memoize(machine: _Machine) -> None:
    machine.memo[len(machine.memo)] = machine.stack[-1]


def _mark(machine: _Machine) -> None:
    machine.marks.append(len(machine.stack))


def _append(machine: _Machine) -> None:
    value = machine.stack.pop()
    machine.top(list).append(value)


def _appends(machine: _Machine) -> None:
    values = machine.since_mark()
    machine.top(list).extend(values)


def _set_item(machine: _Machine) -> None:
    value, key = machine.stack.pop(), machine.stack.pop()
    _fill(machine.top(dict), [key, value])


def _set_items(machine: _Machine) -> None:
    values = machine.since_mark()
    _fill(machine.top(dict), values)


def _fill(target: dict[Any, Any], values: list[Any]) -> None:
    keys = values[::2]
    if len(values) % 2 or not {type(key) for key in keys} <= {str, int}:
        raise _Refused("has keys that are neither texts nor integers")
    target.update(zip(keys, values[1::2], strict=True))


def _dict(machine: _Machine) -> None:
    filled: dict[Any, Any] = {}
    _fill(filled, machine.since_mark())
    machine.stack.append(filled)


def _list(machine: _Machine) -> None:
    machine.stack.append(machine.since_mark())


def _tuple(machine: _Machine) -> None:
    machine.stack.append(tuple(machine.since_mark()))


def _skip(machine: _Machine, size: int) -> None:
    machine.take(size)


def _signed(raw: bytes) -> int:
    if len(raw) > _LONGEST_INTEGER:
        raise _Refused("has an integer that no dump needs")
    return int.from_bytes(raw, "little", signed=True)


def _unsigned(raw: bytes) -> int:
    return int.from_bytes(raw, "little")


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", errors="backslashreplace")  # paths may hold any bytes


def _real(raw: bytes) -> object:
    return struct.unpack(">d", raw)[0]


_STOP: Final = ord(".")
_INSTRUCTIONS: Final[dict[int, Callable[[_Machine], None]]] = {
    code[0]: instruction
    for code, instruction in (
        (b"\x80", lambda machine: _skip(machine, 1)),  # protocol
        (b"\x95", lambda machine: _skip(machine, 8)),  # frame
        (b"(", _mark),
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
        (b"G", _sized(8, _real)),
        (b"X", _counted(4, _text)),
        (b"\x8c", _counted(1, _text)),
        (b"\x8d", _counted(8, _text)),
        (b"a", _append),
        (b"e", _appends),
        (b"l", _list),
        (b"s", _set_item),
        (b"u", _set_items),
        (b"d", _dict),
        (b"t", _tuple),
        (b"\x85", _tuple_of(1)),
        (b"\x86", _tuple_of(2)),
        (b"\x87", _tuple_of(3)),
        (b"q", _remember(1)),
        (b"r", _remember(4)),
        (b"\x94", _memoize),
        (b"h", _recall(1)),
        (b"j", _recall(4)),
    )
}
