"""Gathering for DeepSpeed's ZeRO-3: all-gathers with their copies, and how far the host may run ahead."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from zerosim.kinds import Kind
from zerosim.numerics import Numerics
from zerosim.plan import Allocation, PlanWriter
from zerosim.schedules.deepspeed3.modules import Tensor
from zerosim.schedules.deepspeed3.options import DeepSpeed3Options
from zerosim.schedules.layers import last_computed

_OUTSTANDING: Final = 2
"""Fetches that may be outstanding when the host fetches one more (max_ongoing_fetch_events)."""


@dataclass(slots=True)
class _Gather:
    """A gather in flight: its ops, its flat buffer if it has one, whose module has not come yet."""

    members: tuple[int, ...]
    ops: tuple[int, ...]
    label: str
    flat: str | None
    left: set[int]
    copied: bool = False


@dataclass(slots=True)
class Gathers:
    """Writes gathers and what waits for them.

    `updated`: the last update of the parameters; `in_flight`: the gather of each parameter that no
    module has waited for; `arrived`, `copied`: the last gather that the gathering stream has waited
    for, and its last copy; `events`: where it was after each parameter fetched, oldest first;
    `waited`: the last op the host has seen end; `owed`: buffers to free with the next computation.
    """

    writer: PlanWriter
    numerics: Numerics
    options: DeepSpeed3Options
    tensors: tuple[Tensor, ...]
    n_ranks: int
    updated: tuple[int, ...] = ()
    in_flight: dict[int, _Gather] = field(default_factory=dict)
    arrived: tuple[int, ...] = ()
    copied: tuple[int, ...] = ()
    events: deque[tuple[int, ...]] = field(default_factory=deque)
    waited: int = -1
    owed: list[str] = field(default_factory=list)
    n_flat: int = 0

    def restart(self, updated: tuple[int, ...]) -> None:
        """A step is over: parameters have changed, and the host has seen everything end."""
        self.updated = updated
        self.arrived, self.copied = (), ()
        self.events.clear()

    @property
    def passed(self) -> tuple[int, ...]:
        """The ops that the gathering stream, and so the next computation, has waited for."""
        return (*self.copied, *self.arrived)

    @property
    def stream(self) -> str:
        """Where copies run: beside the computation, or with it."""
        return "gather_copy" if self.options.overlap_comm else "compute"

    def start(self, parameters: Sequence[int]) -> None:
        """Issue the gather of some parameters, none of which is gathered."""
        if not parameters:
            return
        label = span([self.tensors[p] for p in parameters])
        if len(parameters) == 1 or self.options.stage3_allgather_sequential:
            ops = tuple(
                self.alone(p, after=self._before(), label=self.tensors[p].label) for p in parameters
            )
            gather = _Gather(tuple(parameters), ops, label, None, set(parameters), copied=True)
        elif self.options.stage3_use_all_reduce_for_fetch_params:
            gather = self._all_reduced(parameters, label)
        else:
            gather = self._flat(parameters, label)
        self.in_flight.update(dict.fromkeys(parameters, gather))

    def wait(self, parameters: Iterable[int], *, counted: bool = True) -> None:
        """A module needs these parameters: computation issued from now on waits for them.

        Unless they are not `counted`, each may make the host wait for the third fetch before it.
        """
        for p in sorted(parameters):
            gather = self.in_flight.pop(p, None)
            if gather is None:
                continue
            self._hold_host()
            # Gathers end in the order they were issued, so the last one stands for all.
            self.arrived = (max(*self.arrived, *gather.ops, -1),)
            if not gather.copied:
                self._copy_out(gather)
            if counted:
                self.events.append(self.passed)
            gather.left.discard(p)
            if gather.flat is not None and not gather.left:
                self.owed.append(gather.flat)

    def alone(self, p: int, *, after: tuple[int, ...], label: str) -> int:
        """AG of one parameter into its own memory."""
        return self.writer.collective(
            Kind.ALL_GATHER,
            label,
            elements=self.tensors[p].padded,
            dtype=self.numerics.dtype,
            after=after,
            allocates=(self._whole(p, self.tensors[p].padded),),
        )

    def drop(self, parameters: Iterable[int], op: int) -> None:
        """Parameters, and buffers owed, are freed once the host has issued `op`."""
        keys = (*self.settle(), *(f"parameter.{p}" for p in parameters))
        if keys:
            written = self.writer.ops[op]
            self.writer.ops[op] = replace(written, frees=(*written.frees, *keys))

    def settle(self) -> tuple[str, ...]:
        """The buffers owed, to be freed by the op about to be written."""
        keys = tuple(self.owed)
        self.owed.clear()
        return keys

    def _flat(self, parameters: Sequence[int], label: str) -> _Gather:
        """AG of several: shards are packed into a flat buffer, parameters copied out of it later."""
        elements = sum(self.tensors[p].padded for p in parameters)
        width = self.numerics.param_bytes
        self.n_flat += 1
        flat = Allocation(f"flat.{self.n_flat}", "gathered", elements * width)
        pack = self.writer.compute(
            Kind.COPY,
            label,
            stream=self.stream,
            name=f"pack{label}",
            after=self._before(),
            memory_bytes=2 * elements // self.n_ranks * width,
            allocates=(flat,),
        )
        op = self.writer.collective(
            Kind.ALL_GATHER, label, elements=elements, dtype=self.numerics.dtype, after=(pack,)
        )
        return _Gather(tuple(parameters), (op,), label, flat.key, set(parameters))

    def _all_reduced(self, parameters: Sequence[int], label: str) -> _Gather:
        sizes = [(p, self.tensors[p].padded) for p in parameters]
        op = self.writer.collective(
            Kind.ALL_REDUCE,
            label,
            elements=sum(size for _, size in sizes),
            dtype=self.numerics.dtype,
            after=self._before(),
            allocates=tuple(self._whole(p, size) for p, size in sizes),
        )
        return _Gather(tuple(parameters), (op,), label, None, set(parameters), copied=True)

    def _copy_out(self, gather: _Gather) -> None:
        gather.copied = True
        sizes = [(p, self.tensors[p].numel) for p in gather.members]
        copy = self.writer.compute(
            Kind.COPY,
            gather.label,
            stream=self.stream,
            after=self.arrived,
            memory_bytes=2 * sum(size for _, size in sizes) * self.numerics.param_bytes,
            allocates=tuple(self._whole(p, size) for p, size in sizes),
        )
        self.copied = (copy,)

    def _hold_host(self) -> None:
        if len(self.events) > _OUTSTANDING:
            event = self.events.popleft()
            if max(event) > self.waited:
                self.writer.wait(event, "fetch")
                self.waited = max(event)

    def _before(self) -> tuple[int, ...]:
        """What the gathering stream has passed when a gather is issued."""
        last = () if self.options.overlap_comm else last_computed(self.writer)
        return tuple(dict.fromkeys((*self.updated, *self.passed, *last)))

    def _whole(self, p: int, elements: int) -> Allocation:
        return Allocation(f"parameter.{p}", "gathered", elements * self.numerics.param_bytes)


def span(tensors: Sequence[Tensor]) -> str:
    """What a collective over these is called: their module, their layer, or first and last layer."""
    labels = list(dict.fromkeys(tensor.label for tensor in tensors))
    layers = list(dict.fromkeys(tensor.layer for tensor in tensors))
    if len(labels) == 1:
        return labels[0]
    return layers[0] if len(layers) == 1 else f"{layers[0]}-{layers[-1]}"
