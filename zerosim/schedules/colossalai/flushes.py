"""When ColossalAI reduces a bucket, and which layers a forward leaves out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from zerosim.errors import ScenarioError, UnknownNameError
from zerosim.workload import Workload


@dataclass(frozen=True, slots=True)
class Flush:
    """A bucket that is reduced when the gradient `at` arrives (None: when the backward is over)."""

    index: int
    at: int | None
    parameters: tuple[int, ...]
    owner: int = 0


def flushes(
    order: Sequence[int],
    *,
    numel: Sequence[int],
    held: Sequence[int],
    cap: int,
    owners: Mapping[int, int] | None = None,
) -> tuple[Flush, ...]:
    """Fill buckets of `cap` elements: a gradient that would overflow its bucket has that reduced first.

    `numel`: elements of each arriving gradient; `held`: what it takes in the bucket, padding
    included. With `owners`, each owner has a bucket of its own, and what is left goes by owner.
    """
    filling: dict[int, list[int]] = {}
    found: list[tuple[int | None, int, list[int]]] = []
    for parameter in order:
        owner = owners[parameter] if owners is not None else 0
        bucket = filling.setdefault(owner, [])
        if bucket and sum(held[i] for i in bucket) + numel[parameter] > cap:
            found.append((parameter, owner, bucket))
            bucket = filling[owner] = []
        bucket.append(parameter)
    found += [(None, owner, filling[owner]) for owner in sorted(filling)]
    return tuple(Flush(i, at, tuple(bucket), owner) for i, (at, owner, bucket) in enumerate(found))


def without(workload: Workload, dropped: str) -> Workload:
    """The workload as if its forward left out the layers named in `dropped` (commas between)."""
    names = [name.strip() for name in dropped.split(",") if name.strip()]
    known = [layer.name for layer in workload.layers]
    for name in names:
        if name not in known:
            raise UnknownNameError("layer", name, known)
    kept = tuple(layer for layer in workload.layers if layer.name not in names)
    if not kept:
        raise ScenarioError(f"schedule.drop_layers is '{dropped}': leave at least one layer")
    return replace(workload, layers=kept)
