"""Directories and files that are there whole or not at all: written aside, flushed, put in place."""

from __future__ import annotations

import ctypes
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from errno import ENOENT
from pathlib import Path
from typing import BinaryIO, Final

_HERE: Final = -100  # AT_FDCWD
_EXCHANGE: Final = 2  # RENAME_EXCHANGE
_SHOWN: Final = 60
"""Letters of a name that the name of its scratch file repeats."""
_TRIES: Final = 100
"""Another writer may come first; each time one of both is done."""


@contextmanager
def whole_directory(path: Path) -> Iterator[Path]:
    """An empty directory beside `path`, which takes its place when the block ends without an error.

    What stood there before is gone then; till then, and if anything fails, it stays. Raises OSError.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    try:
        yield scratch
        flush(scratch)
        scratch.chmod(0o755)
        put_in_place(scratch, path)
        flush(path.parent)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """An empty file beside `path`, which takes its place when the block ends without an error.

    What stood there before is gone then; till then, and if anything fails, it stays. Raises OSError.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name[:_SHOWN]}.", dir=path.parent)
    scratch = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
        flush(scratch)
        scratch.chmod(0o644)
        scratch.replace(path)
        flush(path.parent)
    finally:
        scratch.unlink(missing_ok=True)


def put_in_place(scratch: Path, path: Path) -> None:
    """Rename `scratch` to `path`; a directory that stood there bears the name `scratch` afterwards.

    There is no moment without one of them. Raises OSError.
    """
    for last in (*[False] * _TRIES, True):
        try:
            scratch.rename(path)
        except OSError:
            if last or not path.is_dir():
                raise
        else:
            return
        try:
            _exchange(scratch, path)
        except FileNotFoundError:
            continue  # somebody has just deleted it
        return


def identity(path: Path) -> tuple[int, int] | None:
    """What tells a directory from another one that took its name; None if there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns


def flush(path: Path) -> None:
    """Wait until a file or a directory is on the disk. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _exchange(one: Path, other: Path) -> None:
    system = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    names = (os.fsencode(one), os.fsencode(other))
    if system is not None and system(_HERE, names[0], _HERE, names[1], _EXCHANGE) == 0:
        return
    if system is not None and ctypes.get_errno() == ENOENT:
        raise FileNotFoundError(ENOENT, os.strerror(ENOENT), str(other))
    _exchange_in_steps(one, other)


def _exchange_in_steps(one: Path, other: Path) -> None:
    """Where the system cannot do it at once; what stood there comes back if the last step fails."""
    aside = Path(tempfile.mkdtemp(prefix=f".{other.name}.", dir=other.parent))
    try:
        other.rename(aside / "old")
        try:
            one.rename(other)
        except OSError:
            (aside / "old").rename(other)
            raise
        (aside / "old").rename(one)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
