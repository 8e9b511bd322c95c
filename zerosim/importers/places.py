"""Where traces lie: files, folders, patterns of names and archives, opened one after the other."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

from zerosim.errors import TraceFileError
from zerosim.importers.archive import unfold
from zerosim.importers.content import Content, is_archive, read_content

MAX_FILES: Final = 4096
MAX_FOLDERS: Final = 8
"""So deep a folder is searched."""

_PATTERN: Final = frozenset("*?[")


@dataclass(frozen=True, slots=True)
class Found:
    """What a file holds; `named`: somebody asked for it by name, so it has to be a trace.

    `share` of the files came before it, and the file that it is or lies in is `part` of them.
    """

    content: Content
    named: bool
    share: float
    part: float


def open_all(paths: Sequence[Path], notes: list[str], *, salvage: bool = False) -> Iterator[Found]:
    """What lies at `paths`, read when it is its turn; `notes` say what was left out.

    A folder stands for all files in and under it (links in it are not followed), an archive for its
    members, a pattern (`*`, `?`, `**`) for the files that match. `salvage`: a gzip may end early.
    Raises TraceFileError for a path where nothing is, and for too many files.
    """
    files = _files(paths, notes)
    for done, (path, named) in enumerate(files):
        content = read_content(path, salvage=salvage)
        single = named and not is_archive(content.raw)
        for member in unfold(content, notes):
            yield Found(member, single, done / len(files), 1 / len(files))


def _files(paths: Sequence[Path], notes: list[str]) -> list[tuple[Path, bool]]:
    if not paths:
        raise TraceFileError("no files given: name at least one trace file or directory")
    found: dict[Path, tuple[Path, bool]] = {}
    for path in paths:
        for file, named in _at(path, notes):
            known = found.setdefault(_same(file), (file, named))
            if known[0] is not file:
                notes.append(f"'{file.name}' is named twice: read once")
            if len(found) > MAX_FILES:
                raise TraceFileError(
                    f"'{path}' and others hold over {MAX_FILES} files: give those of one run"
                )
    return list(found.values())


def _at(path: Path, notes: list[str]) -> Iterator[tuple[Path, bool]]:
    if path.is_dir():
        yield from ((file, False) for file in _under(path, notes, 0))
    elif _PATTERN & set(str(path)) and not os.path.lexists(path):
        matches = list(islice(glob.iglob(str(path), recursive=True), MAX_FILES + 1))  # noqa: PTH207 - Path.glob takes no absolute patterns
        files = [match for name in sorted(matches) if (match := Path(name)).is_file()]
        if not files:
            raise TraceFileError(f"no file matches '{path}': check the pattern")
        yield from ((file, False) for file in files)
    else:
        yield path, True


def _under(folder: Path, notes: list[str], depth: int) -> Iterator[Path]:
    if depth > MAX_FOLDERS:
        notes.append(f"folder '{folder.name}' left out: it lies over {MAX_FOLDERS} folders deep")
        return
    try:
        entries = sorted(islice(folder.iterdir(), MAX_FILES + 1))
    except OSError as error:
        raise TraceFileError(f"cannot read '{folder}': {error.strerror}; check the path") from None
    for entry in entries:
        if entry.name.startswith("."):
            continue
        if entry.is_symlink():
            notes.append(f"'{entry.name}' left out: it is a link")
        elif entry.is_dir():
            yield from _under(entry, notes, depth + 1)
        elif entry.is_file():
            yield entry


def _same(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError):  # links in a circle: reading it will say so
        return path
