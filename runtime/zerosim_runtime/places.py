"""Where the files of ranks lie: in one directory, or in one a node below it; and that they are safe to read.

# Note [Files of strangers]
What ranks wrote may come from other machines, by way of copies. So a file is read only if it is a plain
file of a name that ranks give, no link, and not over a size that no rank reaches; nothing in it is
taken for a path; and a rank outside the world is refused.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from zerosim.errors import RunError

Where = Path | Sequence[Path]
"""A directory of ranks, one that has `node-…` directories in it, or several of either."""
ASSIGNMENT_FILE: Final = "assignment.json"
MAX_FILE_BYTES: Final = 256 * 2**20
"""A thousand ops of a rank take less than a MiB."""
MAX_PLACES: Final = 4096
_FILE: Final = re.compile(r"rank-(?P<rank>0|[1-9]\d{0,6})\.jsonl")


def places(where: Where) -> tuple[Path, ...]:
    """The directories that hold files of ranks, in the order of their names. Raises RunError."""
    given = [where] if isinstance(where, Path) else list(where)
    found = [place for directory in given for place in _below(directory)]
    if len(found) > MAX_PLACES:
        raise RunError(f"{len(found)} directories of nodes are over {MAX_PLACES}: give fewer")
    return tuple(found)


def ranks_in(place: Path) -> tuple[int, ...]:
    """The ranks that have a record in one directory, ascending."""
    names = (_FILE.fullmatch(path.name) for path in place.glob("rank-*.jsonl"))
    return tuple(sorted(int(name["rank"]) for name in names if name is not None))


def content_of(path: Path) -> bytes | None:
    """A rank's file, None if there is none. Raises RunError. See Note [Files of strangers]."""
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise RunError(f"'{path}' is no plain file: copy the files that the ranks wrote")
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise RunError(f"'{path}' is over {MAX_FILE_BYTES} bytes: no rank writes that much")
        return path.read_bytes()
    except FileNotFoundError:
        return None


def _below(directory: Path) -> list[Path]:
    if (directory / ASSIGNMENT_FILE).exists():
        return [directory]
    nodes = sorted(directory.glob("node-*"), key=_in_order)
    inside = [node for node in nodes if node.is_dir() and not node.is_symlink()]
    return inside or [directory]


def _in_order(path: Path) -> tuple[int, str]:
    number = path.name.removeprefix("node-")
    return (int(number) if number.isdecimal() else MAX_PLACES, path.name)
