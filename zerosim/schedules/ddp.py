"""DDP: every rank holds everything; gradients are all-reduced in buckets while the backward runs.

# Note [Buckets are made anew]
torch's reducer starts with one bucket of everything (with find_unused_parameters, or a list of caps,
with buckets of parameters as they are defined) and records the order in which gradients arrive. At
the start of the next forward it makes buckets in that order, and rank 0 broadcasts them: which
parameters, and how large. We count these two broadcasts to the step that made them necessary. A
static graph is one reduction later; a dynamic one with find_unused_parameters keeps its first buckets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from zerosim.errors import ScenarioError
from zerosim.kinds import Kind
from zerosim.numerics import Numerics
from zerosim.plan import Allocation, Axis, Plan, PlanWriter, spread
from zerosim.schedules import layers, reducer
from zerosim.schedules.arrival import arrived
from zerosim.schedules.ddp_options import DdpOptions
from zerosim.schedules.norm import clipped
from zerosim.schedules.reducer import Bucket, Launches, Stretch
from zerosim.workload import Workload

__all__ = ["BUFFER", "DdpOptions", "Draft", "ddp", "planned"]
_MAP_DTYPE = "int32"
BUFFER = "buckets"
"""The key of the memory of all buckets, which a rank holds throughout."""


def ddp(
    workload: Workload, n_ranks: int, numerics: Numerics, options: DdpOptions, steps: int = 1
) -> Plan:
    """The steps of torch's DDP, the first ones included."""
    states = workload.n_params * numerics.optimizer_bytes
    held = Allocation("optimizer", "optimizer", states)
    return planned("ddp", Draft(workload, numerics, options), n_ranks, steps, held, Draft.update)


def planned(
    name: str,
    draft: Draft,
    n_ranks: int,
    steps: int,
    optimizer: Allocation,
    update: Callable[[Draft], None],
    groups: tuple[Axis, ...] = (),
) -> Plan:
    """DDP with an optimizer of one's own: what it holds, what it does in a step, and in which groups."""
    workload, numerics, options = draft.workload, draft.numerics, draft.options
    if options.static_graph and options.no_sync and workload.micro_batches > 1:
        raise ScenarioError(
            "schedule.static_graph with no_sync and several micro-batches: torch's reducer stops at "
            "'expect_autograd_hooks_', as its first backward must reduce; give no_sync=false"
        )
    writer, last = draft.writer, workload.micro_batches - 1
    for writer.step in range(1, steps + 1):
        for writer.micro_batch in range(workload.micro_batches):
            draft.forward()
            reduces = writer.micro_batch == last or not options.no_sync
            draft.backward(reduces=reduces)
            if writer.micro_batch == last:
                update(draft)
            if reduces and (writer.step, writer.micro_batch) != (steps, last):
                draft.rebuild()
    held = (
        Allocation("parameters", "parameters", workload.n_params * numerics.storage_bytes),
        optimizer,
        Allocation(
            BUFFER,
            "gradients" if options.gradient_as_bucket_view else "buckets",
            workload.n_params * numerics.reduce_bytes,
        ),
    )
    axes = (Axis("world", n_ranks), *groups)
    steady = _steady_from(workload, options)
    return Plan(name, n_ranks, layers.steps_end(writer.ops), axes, held, steady)


def _steady_from(workload: Workload, options: DdpOptions) -> int:
    """The step after the one whose reductions make the last buckets."""
    per_step = 1 if options.no_sync else workload.micro_batches
    return -(-(options.rebuilds_after or 0) // per_step) + 1


@dataclass(slots=True)
class Draft:
    """A plan being written. `waits`: what the next computation waits for.

    `buckets` and `stretches` are those of now; `own` are the keys of gradients with memory of their
    own; `n_reduced` counts backwards that reduced.
    """

    workload: Workload
    numerics: Numerics
    options: DdpOptions
    writer: PlanWriter = field(default_factory=PlanWriter)
    buckets: tuple[Bucket, ...] = ()
    stretches: tuple[Stretch, ...] = ()
    waits: tuple[int, ...] = ()
    own: tuple[str, ...] = ()
    n_reduced: int = 0

    def __post_init__(self) -> None:
        width = self.numerics.reduce_bytes
        self.cut(reducer.initial_buckets(self.workload, self.options.limits, width))

    def cut(self, buckets: tuple[Bucket, ...]) -> None:
        """From now on gradients go into these buckets."""
        self.buckets = buckets
        self.stretches = reducer.stretches(self.workload, buckets)

    def forward(self) -> None:
        """F of all layers."""
        for layer in self.workload.layers:
            layers.forward(self.writer, layer, self.numerics, after=self.waits)
            self.waits = ()

    def backward(self, *, reduces: bool) -> None:
        """B of all layers; with `reduces`, each bucket is all-reduced when it is full and its turn."""
        # The first backward of a static graph finds out how often each parameter is used.
        delayed = reduces and self.options.static_graph and self.n_reduced == 0
        launches = Launches(self.buckets, self._all_reduce)
        b = 0
        for i, layer in reversed(list(enumerate(self.workload.layers))):
            made = self._made(i)
            b = layers.backward(self.writer, layer, self.numerics, allocates=made)
            self.own += tuple(allocation.key for allocation in made)
            if reduces and not delayed:
                self._fill(launches, b, (s for s in self.stretches if s.completed == i))
        if not reduces:
            return
        used: tuple[int, ...] = ()
        if delayed:
            used = (self._reduce_map(),)
            self._fill(launches, b, self.stretches)
        elif self.options.find_unused_parameters and not self.options.static_graph:
            used = (self._reduce_map(),)
        self.n_reduced += 1
        self.waits = (*self._copied_back(launches.launched), *used)

    def update(self, loads: Sequence[int] = ()) -> None:
        """OPT, then zero_grad: gradients with memory of their own are dropped.

        `loads`: parameters that each rank updates, if not all of them.
        """
        width = self.numerics.update_bytes
        nbytes = self.workload.n_params * self.numerics.reduce_bytes
        self.waits = clipped(self.writer, self.numerics, nbytes, after=self.waits, group=None)
        op = self.writer.compute(
            Kind.OPTIMIZER,
            "",
            after=self.waits,
            memory_bytes=max(loads, default=self.workload.n_params) * width,
            memory_bytes_by_rank=spread([n * width for n in loads]) if loads else None,
            frees=self.own,
        )
        self.waits, self.own = (op,), ()

    def rebuild(self) -> None:
        """See Note [Buckets are made anew]."""
        if self.n_reduced != self.options.rebuilds_after:
            return
        width = self.numerics.reduce_bytes
        self.cut(reducer.rebuilt_buckets(self.workload, self.options.limits, width))
        # Which parameters and how many buckets; then how many parameters each has.
        for elements in (len(arrived(self.workload)) + 1, len(self.buckets)):
            self.broadcast("buckets", elements, _MAP_DTYPE)

    def broadcast(self, unit: str, elements: int, dtype: str, group: str = "world") -> None:
        """One rank tells all of its group; what follows waits for it."""
        op = self.writer.collective(
            Kind.BROADCAST,
            unit,
            elements=elements,
            dtype=dtype,
            after=self.waits,
            group=group,
            communicator=group,
        )
        self.waits = (op,)

    def _made(self, layer: int) -> tuple[Allocation, ...]:
        """Memory of the gradients that a layer's backward begins."""
        sums_up = self.options.no_sync and self.workload.micro_batches > 1
        if self.writer.micro_batch or (self.options.gradient_as_bucket_view and not sums_up):
            return ()
        width = self.numerics.grad_bytes
        return tuple(
            Allocation(s.gradients, "gradients", s.elements * width)
            for s in self.stretches
            if s.begun == layer
        )

    def _fill(self, launches: Launches, b: int, stretches: Iterable[Stretch]) -> None:
        """Divide gradients by the number of ranks into their buckets; launch what is full."""
        for stretch in stretches:
            moves = self.options.gradient_as_bucket_view and stretch.gradients in self.own
            op = self.writer.compute(
                Kind.FILL,
                self.workload.units[stretch.keys[0][0]].name,
                after=(b,),
                memory_bytes=stretch.elements * self._copied_bytes,
                elements=stretch.elements,
                dtype=self.numerics.reduce_dtype,
                bucket=stretch.bucket.index,
                frees=(stretch.gradients,) if moves else (),
            )
            if moves:
                self.own = tuple(key for key in self.own if key != stretch.gradients)
            launches.filled(stretch, op)

    def _all_reduce(self, bucket: Bucket, after: tuple[int, ...]) -> int:
        return self.writer.collective(
            Kind.ALL_REDUCE,
            bucket.label,
            elements=bucket.elements,
            dtype=self.numerics.reduce_dtype,
            after=after,
            bucket=bucket.index,
        )

    def _reduce_map(self) -> int:
        """Which parameters any rank used, one number each."""
        elements = len(arrived(self.workload))
        return self.writer.collective(Kind.ALL_REDUCE, "used", elements=elements, dtype=_MAP_DTYPE)

    def _copied_back(self, reductions: Iterable[int]) -> Iterator[int]:
        """Each bucket back into its gradients, where these are no views of it."""
        for bucket, reduction in zip(self.buckets, reductions, strict=True):
            if self.options.gradient_as_bucket_view:
                yield reduction
                continue
            yield self.writer.compute(
                Kind.COPY,
                bucket.label,
                after=(reduction,),
                memory_bytes=bucket.elements * self._copied_bytes,
                elements=bucket.elements,
                dtype=self.numerics.reduce_dtype,
                bucket=bucket.index,
            )

    @property
    def _copied_bytes(self) -> int:
        return self.numerics.grad_bytes + self.numerics.reduce_bytes
