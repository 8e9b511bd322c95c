"""ZeRO-3: parameters live in shards; each layer is gathered before it runs, then dropped."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from zerosim.errors import ScenarioError
from zerosim.kinds import Kind
from zerosim.numerics import Numerics
from zerosim.partition import padded_unit
from zerosim.plan import Allocation, Plan
from zerosim.schedules import bucket as share
from zerosim.schedules.knobs import knob
from zerosim.schedules.layers import backward_layers
from zerosim.workload import Workload


@dataclass(frozen=True, slots=True)
class Zero3Options:
    """Knobs of the textbook step."""

    keep_last: bool = knob(
        True, "the unit used last in the forward stays gathered for its backward"
    )
    prefetch: int = knob(
        0, "how many layers ahead a gather is issued", "layers", tries=(1, 3), hides=True
    )
    in_flight: int | None = knob(
        None,
        "gathered units at most, counting the one computing; none: prefetch + 2 "
        "(a unit that several layers share does not count)",
        "units",
        tries=(1, 2, 5),
    )
    bucket_bytes: int | None = knob(
        None,
        "size at which gradients are reduced; none: one bucket a unit",
        "bytes",
        tries=(1, 200, 2000),
    )
    communicators: int = knob(
        1, "1: reduce-scatters queue behind all-gathers; 2: they may overlap", choices=(1, 2)
    )

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
    draft = share.draft(workload, n_ranks, numerics, options.bucket_bytes)
    shard = draft.elements // n_ranks
    sizes = tuple(padded_unit(unit, n_ranks) for unit in workload.units)
    gathers = _Gathers(draft, options, tuple(map(len, workload.uses())), sizes)
    writer = draft.writer
    for writer.step in range(1, steps + 1):
        reductions: list[int] = []
        for writer.micro_batch in range(workload.micro_batches):
            _forward(draft, options, gathers)
            reductions += _backward(draft, options, gathers)
        updated = share.update(draft, shard, after=reductions, frees=share.reduced(draft))
        gathers.updated = (updated,)
    return share.finished(draft, "zero3", parameters=shard, optimizer=shard)


def _forward(draft: share.Draft, options: Zero3Options, gathers: _Gathers) -> None:
    units = [layer.unit for layer in draft.workload.layers]
    kept = units[-1] if options.keep_last else None
    last_layer = {unit: i for i, unit in enumerate(units)}
    for i, layer in enumerate(draft.workload.layers):
        gathers.ahead(units[i : i + 1 + options.prefetch])
        last = last_layer[layer.unit] == i and layer.unit != kept
        frees = (_gathered(layer.unit),) if last else ()
        f = share.forward(draft, layer, after=(gathers.live[layer.unit],), frees=frees)
        if last:
            gathers.release(layer.unit, f)


def _backward(draft: share.Draft, options: Zero3Options, gathers: _Gathers) -> list[int]:
    reductions: list[int] = []
    layers = list(backward_layers(draft.workload))
    units = [layer.unit for layer, _ in layers]
    communicator = "world" if options.communicators == 1 else "world.gradients"
    for i, (layer, complete) in enumerate(layers):
        gathers.ahead(units[i : i + 1 + options.prefetch])
        b = share.backward(
            draft,
            layer,
            gradients=complete,
            after=(gathers.live[layer.unit],),
            frees=(_gathered(layer.unit),) if complete else (),
        )
        if complete:
            gathers.release(layer.unit, b)
            reductions += share.reduce_scatter(
                draft,
                layer.unit,
                after=b,
                drop=True,
                keep=draft.writer.micro_batch == 0,
                communicator=communicator,
            )
    return reductions


def _gathered(unit: int) -> str:
    return f"gathered.{unit}"


@dataclass(slots=True)
class _Gathers:
    """Which units are gathered, by which op, and what the next gather must wait for (in_flight).

    `n_uses`: how many layers compute with each unit; `sizes`: its padded elements; `updated`: the
    last update of the parameters; `live`: the gather of each gathered unit; `releases`: the ops that
    freed one; `counted`: gathers that count towards the limit.
    """

    draft: share.Draft
    options: Zero3Options
    n_uses: tuple[int, ...]
    sizes: tuple[int, ...]
    updated: tuple[int, ...] = ()
    live: dict[int, int] = field(default_factory=dict)
    releases: deque[int] = field(default_factory=deque)
    counted: int = 0

    def ahead(self, units: list[int]) -> None:
        """Issue the gathers of those `units` that are not gathered."""
        for unit in units:
            if unit not in self.live:
                self.live[unit] = self._gather(unit)

    def release(self, unit: int, op: int) -> None:
        """`op` was the last to use the gathered `unit`."""
        del self.live[unit]
        if self.n_uses[unit] == 1:
            self.releases.append(op)

    def _gather(self, unit: int) -> int:
        after = self.updated
        if self.n_uses[unit] == 1:
            # The n-th gather takes the room of the (n - limit)-th, so it waits for its release.
            if self.counted >= (self.options.in_flight or self.options.prefetch + 2):
                after = (*after, self.releases.popleft())
            self.counted += 1
        nbytes = self.sizes[unit] * self.draft.numerics.param_bytes
        return self.draft.writer.collective(
            Kind.ALL_GATHER,
            self.draft.workload.units[unit].name,
            elements=self.sizes[unit],
            dtype=self.draft.numerics.dtype,
            after=after,
            allocates=(Allocation(_gathered(unit), "gathered", nbytes),),
        )
