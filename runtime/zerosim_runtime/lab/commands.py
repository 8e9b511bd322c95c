"""How the lab calls `ip`, `tc`, `unshare` and `nsenter`: word lists, never a shell, one sentence if it fails."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from typing import Final

from zerosim.errors import RuntimeFailedError

_PACKAGE: Final = {
    "ip": "iproute2",
    "tc": "iproute2",
    "unshare": "util-linux",
    "nsenter": "util-linux",
}
_LONGEST_S: Final = 30
_SHOWN: Final = 200


class LabError(RuntimeFailedError):
    """This machine cannot make the lab that was asked for."""


def check_tools() -> None:
    """Refuse a machine that lacks a tool. Raises LabError."""
    for tool, package in _PACKAGE.items():
        if shutil.which(tool) is None:
            raise LabError(_missing(tool, package))


def call(words: Sequence[str], given: str | None = None) -> str:
    """Run a command, with `given` as its input; returns what it prints. Raises LabError."""
    try:
        done = subprocess.run(
            list(words),
            input=given or "",
            capture_output=True,
            text=True,
            timeout=_LONGEST_S,
            check=False,
        )
    except FileNotFoundError:
        package = _PACKAGE.get(words[0], words[0])
        raise LabError(_missing(words[0], package)) from None
    except subprocess.TimeoutExpired:
        raise LabError(
            f"'{' '.join(words)[:_SHOWN]}' did not end within {_LONGEST_S} s: try again, or --paced"
        ) from None
    if done.returncode:
        why = " ".join(done.stderr.split())[:_SHOWN] or f"it ended with {done.returncode}"
        raise LabError(f"the lab cannot be made: {why}")
    return done.stdout


def batch(prefix: Sequence[str], tool: str, lines: Sequence[str]) -> None:
    """Run several commands of `ip` or `tc` in one process. Raises LabError."""
    call([*prefix, tool, "-batch", "-"], "\n".join(lines) + "\n")


def _missing(tool: str, package: str) -> str:
    return f"'{tool}' is not installed, the lab needs it: install {package}, or take --paced"
