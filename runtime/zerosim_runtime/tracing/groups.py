"""The process groups of a program: what they are called in a trace, and how far each has counted."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import torch
import torch.distributed as dist

from zerosim_runtime.tracing.asked import Sort

_WORLD: Final = "world"
_UNNAMED: Final = ("", "undefined", "default_pg")


@dataclass(slots=True)
class Seen:
    """A process group: `ranks` are its members' global ranks, None: unknown; `rank` is one's own place.

    `counts` holds how many collectives it has had, and how many messages from whom to whom.
    """

    name: str
    rank: int
    size: int
    ranks: tuple[int, ...] | None
    group: weakref.ref[Any]
    backends: dict[str, str] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    sorts: dict[Hashable, Sort] = field(default_factory=dict)
    """Those of its calls so far, by all that makes them differ."""

    def count(self, of: str) -> int:
        """The number of the next one of `of`, from 0."""
        number = self.counts.get(of, 0)
        self.counts[of] = number + 1
        return number

    def global_rank(self, member: int) -> int:
        """The rank in the world of a member."""
        return member if self.ranks is None else self.ranks[member]


@dataclass(slots=True)
class Groups:
    """All groups that have been seen; `tell` is told of each new one by its name and its ranks."""

    tell: Callable[[str, Sequence[int]], None]
    seen: dict[str, Seen] = field(default_factory=dict)
    names: dict[str, int] = field(default_factory=dict)

    def of(self, group: Any) -> Seen:  # noqa: ANN401 - an unboxed ProcessGroup
        """The group of a call; a group that was destroyed and made anew is another one."""
        known = self.seen.get(group.group_name)
        if known is not None and known.group() is group:
            return known
        seen = self._seen(group)
        self.seen[group.group_name] = seen
        return seen

    def announce(self, name: str, ranks: Sequence[int]) -> None:
        """Tell of a group unless its name is known."""
        if name not in self.names:
            self.names[name] = 1
            self.tell(name, ranks)

    def _seen(self, group: Any) -> Seen:  # noqa: ANN401 - as above
        name = _name(group)
        before = self.names.get(name, 0)
        self.names[name] = before + 1
        if before:
            name = f"{name}#{before + 1}"
        ranks = _ranks(group)
        if ranks is not None:
            self.tell(name, ranks)
        return Seen(name, group.rank(), group.size(), ranks, weakref.ref(group))


def backend_of(seen: Seen, group: Any, device: str) -> str:  # noqa: ANN401 - as above
    """The backend that carries a group's tensors of that device type, `gloo` or `nccl` among others."""
    if device not in seen.backends:
        try:
            found = str(group._get_backend(torch.device(device)).name())  # noqa: SLF001 - torch has no public way
        except RuntimeError:
            found = str(group.name())
        seen.backends[device] = found.lower()
    return seen.backends[device]


def _name(group: Any) -> str:  # noqa: ANN401 - as above
    described = str(group.group_desc)
    if described == "default_pg":
        return _WORLD
    name = str(group.group_name)[:8]
    return name if described in _UNNAMED else f"{described}:{name}"


def _ranks(group: Any) -> tuple[int, ...] | None:  # noqa: ANN401 - as above
    try:
        return tuple(dist.get_process_group_ranks(group))
    except (KeyError, ValueError, RuntimeError):
        return None
