"""Files that a verb writes: the place is tried first, then the whole file or none."""

from __future__ import annotations

import os
from pathlib import Path

from zerosim.errors import InputError


def check_out(out: Path, option: str = "--out") -> None:
    """Refuse a place that cannot be written, before minutes are spent. Raises InputError."""
    if out.is_dir():
        raise InputError(f"{option} {out} is a directory: name a file")
    if not out.parent.is_dir():
        raise InputError(f"{option} {out}: there is no directory '{out.parent}': make it first")
    if not os.access(out if out.exists() else out.parent, os.W_OK):
        raise InputError(f"{option} {out} cannot be written: give another place")


def write_out(out: Path, content: bytes) -> None:
    """The whole file or none; a device or a pipe is written as it is. Raises InputError."""
    aside = out.parent / f".zerosim-{os.getpid()}"
    try:
        if out.exists() and not out.is_file():
            out.write_bytes(content)
            return
        aside.write_bytes(content)
        aside.replace(out.resolve())
    except OSError as error:
        aside.unlink(missing_ok=True)
        reason = error.strerror or error
        raise InputError(f"'{out}' cannot be written ({reason}): give another place") from None
