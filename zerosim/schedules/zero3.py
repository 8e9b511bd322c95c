"""ZeRO-3: parameters live in shards; each layer is gathered before it runs, then dropped."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from zerosim.errors import ScenarioError
from zerosim.kinds import Kind
from zerosim.numerics import Numerics
from zerosim.partition import padded_unit
from zerosim.plan import Allocation, Axis, Plan, PlanWriter
from zerosim.schedules import bucket as share
from zerosim.workload import Workload


@dataclass(frozen=True, slots=True)
class Zero3Options:
    """Knobs of the textbook step.

    `keep_last`: the unit used last in the forward stays gathered for its backward. `prefetch`: how
    many layers ahead a gather is issued. `in_flight`: how many gathered units there may be, counting
    the one computing (None: prefetch + 2; a unit that several layers share does not count).
    `bucket_bytes`: size at which gradients are reduced (None: one bucket a unit).
    `communicators`: 1 makes reduce-scatters queue behind all-gathers, 2 lets them overlap.
    """

    keep_last: bool = True
    prefetch: int = 0
    in_flight: int | None = None
    bucket_bytes: int | None = None
    communicators: int = 1

    def __post_init__(self) -> None:
        """Refuse a limit that would stop its own prefetch."""
        if self.prefetch < 0:
            raise ScenarioError(f"schedule.prefetch is {self.prefetch}: give 0 or more layers")
        if self.in_flight is not None and self.in_flight <= self.prefetch:
            raise ScenarioError(
                f"schedule.in_flight is {self.in_flight} with prefetch {self.prefetch}: "
                f"give at least {self.prefetch + 1}"
            )
        if self.communicators not in (1, 2):
            raise ScenarioError(f"schedule.communicators is {self.communicators}: give 1 or 2")


def zero3(
    workload: Workload, n_ranks: int, numerics: Numerics, options: Zero3Options, steps: int = 1
) -> Plan:
    """The textbook ZeRO-3 step; the lesson's sequence by default. There is no gather after OPT."""
    writer = PlanWriter()
    every = share.buckets(
        workload,
        share.gradient_order(workload),
        n_ranks=n_ranks,
        element_bytes=numerics.grad_bytes,
        cap_bytes=options.bucket_bytes,
    )
    shard = sum(bucket.elements for bucket in every) // n_ranks
    kept = tuple(share.reduced(bucket) for bucket in every)
    gathers = _Gathers(writer, workload, n_ranks, numerics, options)
    for writer.step in range(1, steps + 1):
        reductions: list[int] = []
        for writer.micro_batch in range(workload.micro_batches):
            _forward(writer, workload, numerics, options, gathers)
            reductions += _backward(writer, workload, n_ranks, numerics, options, gathers, every)
        update = share.update(writer, shard, numerics, after=reductions, frees=kept)
        gathers.updated = (update,)
    held = share.held(shard, shard, numerics)
    return Plan("zero3", n_ranks, tuple(writer.ops), (Axis("world", n_ranks),), held)


def _forward(
    writer: PlanWriter,
    workload: Workload,
    numerics: Numerics,
    options: Zero3Options,
    gathers: _Gathers,
) -> None:
    units = [layer.unit for layer in workload.layers]
    kept = units[-1] if options.keep_last else None
    for i, layer in enumerate(workload.layers):
        gathers.ahead(units[i : i + 1 + options.prefetch])
        last_use = layer.unit not in units[i + 1 :] and layer.unit != kept
        f = share.forward(
            writer,
            layer,
            numerics,
            after=gathers.ready(layer.unit),
            frees=gathers.drop(layer.unit) if last_use else (),
        )
        gathers.used(layer.unit, f, dropped=last_use)


def _backward(
    writer: PlanWriter,
    workload: Workload,
    n_ranks: int,
    numerics: Numerics,
    options: Zero3Options,
    gathers: _Gathers,
    every: tuple[share.Bucket, ...],
) -> list[int]:
    reductions: list[int] = []
    layers = list(share.backward_layers(workload))
    units = [layer.unit for layer, _ in layers]
    for i, (layer, complete) in enumerate(layers):
        gathers.ahead(units[i : i + 1 + options.prefetch])
        b = share.backward(
            writer,
            layer,
            numerics,
            after=gathers.ready(layer.unit),
            allocates=share.gradients_of(layer.unit, every, numerics) if complete else (),
            frees=gathers.drop(layer.unit) if complete else (),
        )
        gathers.used(layer.unit, b, dropped=complete)
        if not complete:
            continue
        reductions += [
            share.reduce_scatter(
                writer,
                bucket,
                numerics,
                after=filled,
                n_ranks=n_ranks,
                communicator="world" if options.communicators == 1 else "world.gradients",
                keep=writer.micro_batch == 0,
            )
            for bucket, filled in share.fill(
                writer, layer.unit, every, workload, numerics, after=b, flat=True, drop=True
            )
        ]
    return reductions


@dataclass(slots=True)
class _Gathers:
    """Which units are gathered now, and which gather must wait for which release (in_flight)."""

    writer: PlanWriter
    workload: Workload
    n_ranks: int
    numerics: Numerics
    options: Zero3Options
    updated: tuple[int, ...] = ()
    live: dict[int, int] = field(default_factory=dict)
    releases: deque[int] = field(default_factory=deque)
    counted: int = 0

    def ahead(self, units: list[int]) -> None:
        """Issue the gathers of those `units` that are not gathered."""
        for unit in units:
            if unit not in self.live:
                self.live[unit] = self._gather(unit)

    def ready(self, unit: int) -> tuple[int, ...]:
        """What an op that computes with `unit` waits for."""
        return (self.live[unit],)

    def drop(self, unit: int) -> tuple[str, ...]:
        """The key of the gathered parameters of `unit`, to be freed."""
        return (f"gathered.{unit}",)

    def used(self, unit: int, op: int, *, dropped: bool) -> None:
        """Remember that `op` was the last to use `unit`, if it was dropped."""
        if not dropped:
            return
        del self.live[unit]
        if self._counts(unit):
            self.releases.append(op)

    def _counts(self, unit: int) -> bool:
        return len(self.workload.uses(unit)) == 1

    def _gather(self, unit: int) -> int:
        limit = self.options.in_flight or self.options.prefetch + 2
        after = self.updated
        if self._counts(unit):
            # The n-th gather takes the room of the (n - limit)-th, so it waits for its release.
            if self.counted >= limit:
                after = (*after, self.releases.popleft())
            self.counted += 1
        elements = padded_unit(self.workload.units[unit], self.n_ranks)
        nbytes = elements * self.numerics.param_bytes
        return self.writer.collective(
            Kind.ALL_GATHER,
            self.workload.units[unit].name,
            elements=elements,
            dtype=self.numerics.dtype,
            after=after,
            allocates=(Allocation(f"gathered.{unit}", "gathered", nbytes),),
        )
