"""When a bucket of gradients is full: in a static order, or as gradients arrive."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

Names = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Weight:
    """What a parameter adds to a bucket; buckets hold parameters of one `lane` (dtype, owner) only."""

    nbytes: int
    lane: Hashable


def cut(names: Iterable[str], weights: Mapping[str, Weight], cap_bytes: int) -> tuple[Names, ...]:
    """Cut parameters into buckets; one closes when its size reaches or passes `cap_bytes`."""
    filling = Dynamic(weights, cap_bytes)
    closed = [bucket for name in names for bucket in filling.arrived(name)]
    return (*closed, *filling.rest())


class Order(ABC):
    """Says which buckets may be reduced now; every rank must reduce the same ones in the same order."""

    @abstractmethod
    def arrived(self, name: str) -> Iterator[Names]:
        """The buckets that are full once this gradient is there."""

    @abstractmethod
    def rest(self) -> Iterator[Names]:
        """The buckets still to be reduced at the end of the backward pass; the next pass starts anew."""


@dataclass(slots=True)
class Static(Order):
    """Always the same buckets in the same order, so that a gradient missing on one rank harms nobody."""

    buckets: Sequence[Names]
    seen: set[str] = field(default_factory=set)
    n_begun: int = 0

    def arrived(self, name: str) -> Iterator[Names]:
        """Those whose gradients are all there, up to the first that lacks one."""
        self.seen.add(name)
        for bucket in self.buckets[self.n_begun :]:
            if not all(each in self.seen for each in reversed(bucket)):  # the last is often missing
                break
            self.n_begun += 1
            yield bucket

    def rest(self) -> Iterator[Names]:
        """Those that lack a gradient, and those behind them."""
        left = self.buckets[self.n_begun :]
        self.seen, self.n_begun = set(), 0
        yield from left


@dataclass(slots=True)
class Dynamic(Order):
    """Gradients go into the bucket in the order of the hooks; parameters without one are left out."""

    weights: Mapping[str, Weight]
    cap_bytes: int
    filling: dict[Hashable, list[str]] = field(default_factory=dict)
    sizes: dict[Hashable, int] = field(default_factory=dict)

    def arrived(self, name: str) -> Iterator[Names]:
        """The bucket of this gradient, if it is full now."""
        weight = self.weights[name]
        self.filling.setdefault(weight.lane, []).append(name)
        size = self.sizes.pop(weight.lane, 0) + weight.nbytes
        if size >= self.cap_bytes:
            yield tuple(self.filling.pop(weight.lane))
        else:
            self.sizes[weight.lane] = size

    def rest(self) -> Iterator[Names]:
        """What has not filled a bucket."""
        left, self.filling, self.sizes = self.filling, {}, {}
        yield from map(tuple, left.values())
