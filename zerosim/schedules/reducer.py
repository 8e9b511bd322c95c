"""The buckets of torch's DDP reducer: how parameters are dealt to them, and when each is launched."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final

from zerosim.schedules.arrival import Key, arrived, begun, completed, defined, layer_of, numel
from zerosim.workload import Workload

DEFAULT_CAP_MB: Final = 25
"""torch's _DEFAULT_BUCKET_CAP_MB."""
FIRST_BUCKET_BYTES: Final = 2**20
"""torch.distributed._DEFAULT_FIRST_BUCKET_BYTES: the first bucket's limit where no cap is given."""


def gradients_key(stretch: int) -> str:
    """The key of the memory of a stretch's gradients."""
    return f"gradients.{stretch}"


@dataclass(frozen=True, slots=True)
class Bucket:
    """Parameters that are reduced together. `label` names the layers that complete them."""

    index: int
    label: str
    keys: frozenset[Key]
    elements: int


@dataclass(frozen=True, slots=True)
class Stretch:
    """Neighbours in arrival that go into one bucket, begun and completed by the same two layers.

    `number` counts them in the order of arrival; `last`: they are the last of their bucket.
    """

    number: int
    bucket: Bucket
    keys: tuple[Key, ...]
    elements: int
    begun: int
    completed: int
    last: bool

    @property
    def gradients(self) -> str:
        """The key of their memory, where gradients have one of their own."""
        return gradients_key(self.number)


@dataclass(frozen=True, slots=True)
class Limits:
    """Bytes at which buckets close: of those made at the start, and of those made anew.

    The n-th limit closes the n-th bucket, the last one all that follow; None: nothing does.
    """

    initial: tuple[int | None, ...]
    rebuilt: tuple[int | None, ...]


def initial_buckets(workload: Workload, limits: Limits, element_bytes: int) -> tuple[Bucket, ...]:
    """As the constructor makes them: parameters as they are defined, and the last bucket goes first."""
    dealt = _dealt(workload, defined(workload), limits.initial, element_bytes)
    return _buckets(workload, tuple(reversed(dealt)))


def rebuilt_buckets(workload: Workload, limits: Limits, element_bytes: int) -> tuple[Bucket, ...]:
    """As they are made anew: parameters in the order in which their gradients arrived."""
    return _buckets(workload, _dealt(workload, arrived(workload), limits.rebuilt, element_bytes))


def stretches(workload: Workload, buckets: Iterable[Bucket]) -> tuple[Stretch, ...]:
    """What goes into which bucket, in the order of arrival."""
    of = {key: bucket for bucket in buckets for key in bucket.keys}
    missing = {bucket.index: len(bucket.keys) for bucket in of.values()}
    first, last = layer_of(begun(workload)), layer_of(completed(workload))
    found: list[Stretch] = []
    for (index, start, end), run in groupby(
        arrived(workload), key=lambda key: (of[key].index, first[key], last[key])
    ):
        keys = tuple(run)
        missing[index] -= len(keys)
        size = sum(numel(workload, key) for key in keys)
        full = missing[index] == 0
        found.append(Stretch(len(found), of[keys[0]], keys, size, start, end, full))
    return tuple(found)


@dataclass(slots=True)
class Launches:
    """Buckets that wait for an earlier one: they are launched strictly in their order."""

    buckets: tuple[Bucket, ...]
    launch: Callable[[Bucket, tuple[int, ...]], int]
    fills: dict[int, tuple[int, ...]] = field(default_factory=dict)
    full: set[int] = field(default_factory=set)
    launched: list[int] = field(default_factory=list)

    def filled(self, stretch: Stretch, fill: int) -> None:
        """The op `fill` has put a stretch in place: launch what can go now."""
        index = stretch.bucket.index
        self.fills[index] = (*self.fills.get(index, ()), fill)
        if stretch.last:
            self.full.add(index)
        while (following := len(self.launched)) in self.full:
            op = self.launch(self.buckets[following], self.fills[following])
            self.launched.append(op)


def _dealt(
    workload: Workload, keys: Sequence[Key], limits: Sequence[int | None], element_bytes: int
) -> tuple[tuple[Key, ...], ...]:
    """Deal whole parameters to buckets; one closes once its bytes reach or pass its limit."""
    closed: list[tuple[Key, ...]] = []
    open_: list[Key] = []
    nbytes = 0
    for key in keys:
        open_.append(key)
        nbytes += numel(workload, key) * element_bytes
        limit = limits[min(len(closed), len(limits) - 1)]
        if limit is not None and nbytes >= limit:
            closed.append(tuple(open_))
            open_, nbytes = [], 0
    return (*closed, tuple(open_)) if open_ else tuple(closed)


def _buckets(workload: Workload, dealt: Sequence[tuple[Key, ...]]) -> tuple[Bucket, ...]:
    completes = layer_of(completed(workload))
    found = []
    for index, keys in enumerate(dealt):
        used = [completes[key] for key in keys]
        first, last = workload.layers[max(used)].name, workload.layers[min(used)].name
        label = first if first == last else f"{first}-{last}"
        elements = sum(numel(workload, key) for key in keys)
        found.append(Bucket(index, label, frozenset(keys), elements))
    return tuple(found)
