"""What the values of a pickle weigh in memory, about, so that a small file cannot ask for much of it."""

from __future__ import annotations

from typing import Final

# Note [What values weigh]: bytes are reckoned as values are made. Instructions that are common have a
# weight each, and so has each entry of a dict; one that is rarer weighs RARE, and four times its own
# bytes (a text may take so many); then there are places on the stack or in a list, and marks.
NUMBER: Final = 32
DICT: Final = 64
PUT_ASIDE: Final = 8
PLACE: Final = 9
MARK: Final = 40
RARE: Final = 96
RARE_BYTE: Final = 4
WEIGHTS: Final = {
    **dict.fromkeys(b"hjK(u", 0),
    **dict.fromkeys(b"MJ\x8a", NUMBER),
    **dict.fromkeys(b"}", DICT),
    **dict.fromkeys(b"\x94", PUT_ASIDE),
}
"""Of common instructions, by their code."""
_FEW: Final = 10
_TABLE, _ENTRY, _ENTRY_OF_MANY = 136, 16, 96
"""A dict with any entry has a table; one of many entries has more room to spare."""


def entries_weigh(entries: int) -> int:
    """What so many entries of a dict take, in bytes."""
    return _TABLE + entries * (_ENTRY if entries <= _FEW else _ENTRY_OF_MANY)
