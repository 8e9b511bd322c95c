"""A registry: names to things, spelled out in one place, with a helpful answer to a wrong name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from zerosim.errors import UnknownNameError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Registry(Generic[T]):
    """What `what` names there are. Looking up an unknown one raises UnknownNameError."""

    what: str
    entries: Mapping[str, T]

    def __getitem__(self, name: str) -> T:
        try:
            return self.entries[name]
        except KeyError:
            raise UnknownNameError(self.what, name, self.entries) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def __contains__(self, name: object) -> bool:
        return name in self.entries
