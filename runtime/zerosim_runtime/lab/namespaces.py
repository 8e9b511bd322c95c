"""Network namespaces that have no name: each lives as long as a process in it, and no longer than we do.

# Note [Nothing is left of a lab]
A namespace here is held by a `cat` that reads a pipe from us. When this process ends, however it ends,
the pipe closes, `cat` ends, and the kernel takes the namespace, its interfaces and its limits away once
the ranks in it have ended, which they do when they see that their launcher is gone (watch). So there is
nothing to clean up, and nothing on the host is ever touched: no interface, no address, no rule.
"""

from __future__ import annotations

import os
import select
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from zerosim_runtime.lab.commands import LabError, check_tools

_HOLD: Final = ("sh", "-c", "echo held; exec cat")
_START_S: Final = 10.0
_SHOWN: Final = 200


@dataclass(frozen=True, slots=True)
class Namespace:
    """A network namespace: the process that holds it, and the words that put a command into it."""

    holder: subprocess.Popen[bytes]
    prefix: tuple[str, ...]

    @property
    def pid(self) -> int:
        """The process that holds it."""
        return self.holder.pid


@contextmanager
def open_namespaces(number: int) -> Iterator[tuple[Namespace, ...]]:
    """So many namespaces, of root or of a user namespace; gone when the block ends. Raises LabError."""
    check_tools()
    opened: list[Namespace] = []
    try:
        opened.append(_first())
        while len(opened) < number:
            opened.append(_beside(opened[0]))
        yield tuple(opened)
    finally:
        for namespace in opened:
            _close(namespace)


def _first() -> Namespace:
    """By root's own right, else by that of a user namespace."""
    reasons = []
    if os.geteuid() == 0:
        try:
            return _held(("unshare", "--net"), ("--net",))
        except LabError as error:
            reasons.append(str(error))
    try:
        return _held(
            ("unshare", "--user", "--map-root-user", "--net"),
            ("--user", "--preserve-credentials", "--net"),
        )
    except LabError as error:
        reasons.append(str(error))
    raise LabError(
        f"no network namespace can be made ({'; '.join(reasons)}): be root, or take --paced"
    )


def _beside(first: Namespace) -> Namespace:
    """Another one, in the same user namespace."""
    kinds = tuple(word for word in first.prefix if word in ("--user", "--preserve-credentials"))
    enter = ("nsenter", "--target", str(first.pid), *kinds) if kinds else ()
    return _held((*enter, "unshare", "--net"), (*kinds, "--net"))


def _held(words: tuple[str, ...], kinds: tuple[str, ...]) -> Namespace:
    holder = subprocess.Popen(
        [*words, *_HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    namespace = Namespace(holder, ("nsenter", "--target", str(holder.pid), *kinds))
    if holder.stdout is None or holder.stderr is None:
        raise LabError("a process without pipes")
    ready, _, _ = select.select([holder.stdout], [], [], _START_S)
    if ready and holder.stdout.readline() == b"held\n":
        return namespace
    holder.kill()
    said = " ".join(holder.stderr.read().decode(errors="replace").split())[:_SHOWN]
    _close(namespace)
    raise LabError(said or f"{words[0]} did not start")


def _close(namespace: Namespace) -> None:
    holder = namespace.holder
    for pipe in (holder.stdin, holder.stdout, holder.stderr):
        if pipe is not None:
            pipe.close()
    try:
        holder.wait(_START_S)
    except subprocess.TimeoutExpired:
        holder.kill()
        holder.wait()
