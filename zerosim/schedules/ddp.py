"""DDP: every rank holds everything; gradients are all-reduced in buckets while the backward runs.

# Note [Buckets are made anew]
torch's reducer starts with one bucket of everything (with find_unused_parameters, or a list of caps,
with buckets of parameters as they are defined) and records the order in which gradients arrive. At
the start of the next forward it makes buckets in that order, and rank 0 broadcasts them: which
parameters, and how large. We count these two broadcasts to the step that made them necessary. A
static graph is one reduction later; a dynamic one with find_unused_parameters keeps its first buckets.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from zerosim.errors import ScenarioError
from zerosim.kinds import Kind
from zerosim.numerics import Numerics
from zerosim.plan import Allocation, Axis, Plan, PlanWriter
from zerosim.schedules import layers, reducer
from zerosim.schedules.arrival import arrived
from zerosim.schedules.knobs import knob
from zerosim.schedules.reducer import Bucket, Launches, Stretch
from zerosim.workload import Workload

_MB = 2**20
_MAP_DTYPE = "int32"
BUFFER = "buckets"
"""The key of the memory of all buckets, which a rank holds throughout."""


@dataclass(frozen=True, slots=True)
class DdpOptions:
    """The arguments of torch's DistributedDataParallel; `no_sync` and `bucket_bytes` are ours."""

    bucket_cap_mb: float | None = knob(
        None,
        "a bucket closes when it reaches or passes this; none: 25, and 1 for the first one",
        "MiB",
        tries=(0.0001, 0.001, 1.0),
    )
    bucket_cap_mb_list: str | None = knob(
        None,
        "one cap a bucket, the last for all that follow, from step 1 on (`1,25`)",
        "MiB",
        tries=("0.0001", "0.0001,0.001"),
    )
    bucket_bytes: int | None = knob(
        None,
        "one cap for every bucket from step 1 on, as bucket_cap_mb_list, in bytes",
        "bytes",
        tries=(1, 200, 2000),
    )
    find_unused_parameters: bool = knob(
        False,
        "search the graph for unused parameters: buckets stay as defined, a map of use is reduced",
    )
    static_graph: bool = knob(
        False, "the graph never changes: buckets are made anew one reduction later"
    )
    gradient_as_bucket_view: bool = knob(
        False, "gradients are views of their buckets: no second copy in memory"
    )
    no_sync: bool = knob(True, "micro-batches before the last only add up; else each one reduces")

    def __post_init__(self) -> None:
        """Refuse caps that torch cannot use, and two ways to give them."""
        given = [n for n in ("bucket_cap_mb_list", "bucket_bytes") if getattr(self, n) is not None]
        if len(given) > 1 or (self.bucket_bytes is not None and self.bucket_cap_mb is not None):
            other = given[0] if len(given) > 1 else "bucket_cap_mb"
            raise ScenarioError(f"schedule.bucket_bytes and {other} are both given: give one")
        if self.bucket_bytes is not None and self.bucket_bytes < 1:
            raise ScenarioError(f"schedule.bucket_bytes is {self.bucket_bytes}: give at least 1")
        for cap in (self.bucket_cap_mb or 0, *self.caps_mb):
            if cap < 0:
                raise ScenarioError(
                    f"a bucket cap of {cap:g} MiB: torch's reducer takes sizes of 0 or more"
                )

    @property
    def caps_mb(self) -> tuple[float, ...]:
        """The caps of the list. Raises ScenarioError for one that is no number."""
        if self.bucket_cap_mb_list is None:
            return ()
        try:
            return tuple(float(cap) for cap in self.bucket_cap_mb_list.split(","))
        except ValueError:
            raise ScenarioError(
                f"schedule.bucket_cap_mb_list is '{self.bucket_cap_mb_list}': "
                "give numbers of MiB with commas between them, e.g. 1,25"
            ) from None

    @property
    def limits(self) -> reducer.Limits:
        """When buckets close, in bytes (torch's _BucketCapacityConfig)."""
        listed = tuple(int(cap * _MB) for cap in self.caps_mb)
        if self.bucket_bytes is not None:
            listed = (self.bucket_bytes,)
        if listed:
            return reducer.Limits(listed, listed)
        cap = self.bucket_cap_mb
        first = reducer.FIRST_BUCKET_BYTES if cap is None else int(cap * _MB)
        every = int((reducer.DEFAULT_CAP_MB if cap is None else cap) * _MB)
        rebuilt = (first, every)
        one_bucket = self.static_graph or not self.find_unused_parameters
        return reducer.Limits((None,) if one_bucket else rebuilt, rebuilt)

    @property
    def rebuilds_after(self) -> int | None:
        """After how many reductions buckets are made anew; None: never."""
        if self.static_graph:
            return 2
        return None if self.find_unused_parameters else 1


def ddp(
    workload: Workload, n_ranks: int, numerics: Numerics, options: DdpOptions, steps: int = 1
) -> Plan:
    """The steps of torch's DDP, the first ones included."""
    if options.static_graph and options.no_sync and workload.micro_batches > 1:
        raise ScenarioError(
            "schedule.static_graph with no_sync and several micro-batches: torch's reducer stops at "
            "'expect_autograd_hooks_', as its first backward must reduce; give no_sync=false"
        )
    draft = _Draft(workload, numerics, options)
    writer, last = draft.writer, workload.micro_batches - 1
    for writer.step in range(1, steps + 1):
        for writer.micro_batch in range(workload.micro_batches):
            draft.forward()
            reduces = writer.micro_batch == last or not options.no_sync
            draft.backward(reduces=reduces)
            if writer.micro_batch == last:
                draft.update()
            if reduces and (writer.step, writer.micro_batch) != (steps, last):
                draft.rebuild()
    held = (
        Allocation("parameters", "parameters", workload.n_params * numerics.storage_bytes),
        Allocation("optimizer", "optimizer", workload.n_params * numerics.optimizer_bytes),
        Allocation(
            BUFFER,
            "gradients" if options.gradient_as_bucket_view else "buckets",
            workload.n_params * numerics.reduce_bytes,
        ),
    )
    axes = (Axis("world", n_ranks),)
    steady = _steady_from(workload, options)
    return Plan("ddp", n_ranks, layers.steps_end(writer.ops), axes, held, steady)


def _steady_from(workload: Workload, options: DdpOptions) -> int:
    """The step after the one whose reductions make the last buckets."""
    per_step = 1 if options.no_sync else workload.micro_batches
    return -(-(options.rebuilds_after or 0) // per_step) + 1


@dataclass(slots=True)
class _Draft:
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

    def update(self) -> None:
        """OPT, then zero_grad: gradients with memory of their own are dropped."""
        op = self.writer.compute(
            Kind.OPTIMIZER,
            "",
            after=self.waits,
            memory_bytes=self.workload.n_params * self.numerics.update_bytes,
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
            op = self.writer.collective(
                Kind.BROADCAST, "buckets", elements=elements, dtype=_MAP_DTYPE, after=self.waits
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
