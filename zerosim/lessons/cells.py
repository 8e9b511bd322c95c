"""What one rank holds of every layer while an op runs, followed through a plan op by op."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from zerosim.kinds import MEMORY_KINDS, Kind
from zerosim.numerics import Numerics
from zerosim.plan import Allocation, Op, Plan
from zerosim.workload import Workload

Fill = Literal[
    "empty",  # nothing of this layer
    "shard",  # this rank's own part only
    "gathered",  # all parts, those of the other ranks arriving or on loan
    "full",  # all parts, for good
    "stale",  # all parts, but only the own one is up to date
    "local",  # gradients of the whole layer, from this rank's micro-batch alone
    "moving",  # gradients on their way to be summed over the ranks
    "summed",  # the sum over the ranks, of the whole layer
    "both",  # the own part summed, the others' still local
    "kept",  # held for a later op
]
COPIES: Final = (Kind.FILL, Kind.COPY)
"""Ops that are no states of a lesson: they move gradients within a rank."""
_REDUCTIONS: Final = (Kind.REDUCE_SCATTER, Kind.ALL_REDUCE)
COLUMNS: Final = ("parameters", "gradients", "optimizer", "activations")
Cells = Mapping[tuple[str, str], Fill]


@dataclass(frozen=True, slots=True)
class Held:
    """While `op` runs (None: before and after the step): fills by (column, unit), bytes by kind."""

    op: Op | None
    cells: Cells
    nbytes: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class _Fixed:
    """What stays the same throughout a plan."""

    units: tuple[str, ...]
    in_bucket: Mapping[int, frozenset[str]]
    persistent: Mapping[str, int]
    whole_parameters: bool
    whole_optimizer: bool


@dataclass(slots=True)
class _Live:
    """What is allocated now, by key, with the op that did; and what allocations do not tell."""

    by_key: dict[str, tuple[Allocation, Op]] = field(default_factory=dict)
    summed: set[str] = field(default_factory=set)
    stale: set[str] = field(default_factory=set)


def follow(plan: Plan, workload: Workload, numerics: Numerics, step: int) -> Iterator[Held]:
    """Before the step, at each of its ops, and after it.

    An op shows what it allocates at once and what it frees only from the next op on, as the host of
    a rank sees it. Copies into a bucket and back are shown with the op after them.
    """
    ops = [op for op in plan.ops if op.step == step]
    fixed, live = _fixed(plan, workload, numerics, ops), _Live()
    yield _held(fixed, live, None)
    for op in ops:
        live.by_key.update({a.key: (a, op) for a in op.allocates})
        if op.kind not in COPIES:
            yield _held(fixed, live, op)
        for key in op.frees:
            live.by_key.pop(key, None)
        _settle(fixed, live, op)
    yield _held(fixed, live, None)


def _fixed(plan: Plan, workload: Workload, numerics: Numerics, ops: Iterable[Op]) -> _Fixed:
    in_bucket: dict[int, set[str]] = {}
    for op in ops:
        if op.kind is Kind.FILL and op.bucket is not None and op.unit:
            in_bucket.setdefault(op.bucket, set()).add(op.unit)
    persistent: Counter[str] = Counter()
    for allocation in plan.persistent:
        persistent[allocation.kind] += allocation.nbytes
    return _Fixed(
        units=tuple(unit.name for unit in workload.units),
        in_bucket={index: frozenset(units) for index, units in in_bucket.items()},
        persistent=persistent,
        whole_parameters=persistent["parameters"] >= workload.n_params * numerics.param_bytes,
        whole_optimizer=persistent["optimizer"] >= workload.n_params * numerics.optimizer_bytes,
    )


def _settle(fixed: _Fixed, live: _Live, op: Op) -> None:
    """What is true once `op` is over, beside what it allocated and freed."""
    if op.kind is Kind.ALL_REDUCE:
        live.summed |= _about(fixed, op)
    elif op.kind is Kind.OPTIMIZER:
        live.summed.clear()
        if fixed.whole_parameters and not fixed.whole_optimizer:
            live.stale |= set(fixed.units)
    elif op.kind is Kind.ALL_GATHER:
        live.stale -= _units_of(fixed, op)


def _units_of(fixed: _Fixed, op: Op) -> set[str]:
    """The units an op is about: its own, or those between the ends of a bucket's `first-last`."""
    if op.unit in fixed.units:
        return {op.unit}
    first, _, last = (op.unit or "").partition("-")
    if first not in fixed.units or last not in fixed.units:
        return set()
    low, high = sorted((fixed.units.index(first), fixed.units.index(last)))
    return set(fixed.units[low : high + 1])


def _held(fixed: _Fixed, live: _Live, op: Op | None) -> Held:
    now = [*live.by_key.values()]
    nbytes = Counter({kind: fixed.persistent.get(kind, 0) for kind in MEMORY_KINDS})
    for allocation, _ in now:
        nbytes[allocation.kind] += allocation.nbytes
    cells: dict[tuple[str, str], Fill] = {}
    for unit in fixed.units:
        cells["parameters", unit] = _parameters(fixed, live, unit, op)
        cells["gradients", unit] = _gradients(fixed, live, unit, op)
        cells["optimizer", unit] = "full" if fixed.whole_optimizer else "shard"
        kept = any(a.kind == "activations" and o.unit == unit for a, o in now)
        cells["activations", unit] = "kept" if kept else "empty"
    return Held(op, cells, nbytes)


def _parameters(fixed: _Fixed, live: _Live, unit: str, op: Op | None) -> Fill:
    arriving = op is not None and op.kind is Kind.ALL_GATHER and unit in _units_of(fixed, op)
    if arriving or any(a.kind == "gathered" and o.unit == unit for a, o in live.by_key.values()):
        return "gathered"
    if not fixed.whole_parameters:
        return "shard"
    return "stale" if unit in live.stale else "full"


def _gradients(fixed: _Fixed, live: _Live, unit: str, op: Op | None) -> Fill:
    makers = {
        maker.kind
        for allocation, maker in live.by_key.values()
        if allocation.kind in ("gradients", "buckets") and unit in _about(fixed, maker)
    }
    if not makers:
        return "empty"
    if op is not None and op.kind in _REDUCTIONS and unit in _about(fixed, op):
        return "moving"
    if unit in live.summed:
        return "summed"
    if Kind.REDUCE_SCATTER not in makers:
        return "local"
    return "both" if Kind.BACKWARD in makers else "shard"


def _about(fixed: _Fixed, op: Op) -> frozenset[str]:
    """The units whose gradients an op makes or moves."""
    if op.bucket is not None:
        return fixed.in_bucket.get(op.bucket, frozenset())
    return frozenset({op.unit} if op.unit else ())
