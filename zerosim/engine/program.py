"""A plan with times: what the engines run, whether it came from a schedule or from a peer's file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from zerosim.cluster import Cluster, Contention
from zerosim.collectives import Transfer, capacities, passes, transfer
from zerosim.compute import compute_ns
from zerosim.engine.contention import Kernels, Taken, kernels_of, taken_by
from zerosim.engine.op_times import OpTimes
from zerosim.errors import PlanError
from zerosim.kinds import COMMUNICATION, Kind
from zerosim.plan import Axis, ByRank, Op, Plan
from zerosim.units import NS_PER_S, seconds_to_ns

Int = NDArray[np.int64]
Cost = tuple[int, Transfer | None, Kernels | None, Taken | None]
"""Ns alone, and, of a collective, what it moves; of kernels, what sets their time; what is taken."""
_RINGS: Final = (Kind.ALL_GATHER, Kind.REDUCE_SCATTER, Kind.ALL_REDUCE)
"""Kinds whose ring hands on a piece of every rank, once or twice round."""
MAX_NS: Final = 2**56
"""Over two years: a longer run would overflow 64 bits once ranks differ."""


@dataclass(frozen=True, slots=True)
class Ring:
    """A message-level ring of all ranks, or rings within rings.

    `phases`, in the order they run: (ranks in the ring, ranks between neighbours, ns of a message).
    `endpoint_ns` is what it takes a rank to take a message up, `base_ns` what is left to do after all.
    """

    phases: tuple[tuple[int, int, int], ...]
    endpoint_ns: int
    base_ns: int = 0

    @property
    def together_ns(self) -> int:
        """How long it takes when all ranks start together."""
        passes = sum((n - 1) * message + n * self.endpoint_ns for n, _, message in self.phases)
        return passes + self.base_ns


@dataclass(frozen=True, slots=True)
class Timed:
    """One op with its times in ns.

    `after` are all ops it waits for: the plan's, the one before it on its communicator, and the one
    before it on its stream. `axis` is an index into the program's axes, None for a local op.
    `transfer` is what a collective puts on the links; `ring` replaces the common end of its members.
    Where ranks differ, `by_rank` says how long each takes, and `duration_ns` is the longest.
    Where kernels take longer beside collectives, `kernels` says what sets an op's time, and `taken`
    what a collective takes from them.
    """

    stream: int
    after: tuple[int, ...]
    issue_ns: int
    duration_ns: int
    axis: int | None = None
    transfer: Transfer | None = None
    ring: Ring | None = None
    blocks: bool = False
    by_rank: ByRank | None = None
    kernels: Kernels | None = None
    taken: Taken | None = None


@dataclass(frozen=True, slots=True)
class Program:
    """Timed ops in issue order for `n_ranks` ranks. `capacity` is bytes/s of each link.

    `uneven`: all that the plan says rank by rank, so that ranks that differ in it are told apart.
    `contention`: what runs at once and takes from each other, on devices of so many `sms`.
    `left`: the share of their speed that transfers on a link keep while one of their ranks computes,
    of links that lose some.
    """

    n_ranks: int
    ops: tuple[Timed, ...]
    axes: tuple[Axis, ...]
    capacity: dict[str, float]
    uneven: tuple[ByRank, ...] = ()
    contention: Contention = field(default_factory=Contention)
    sms: int = 0
    left: Mapping[str, float] = field(default_factory=dict)

    def keeps(self, moved: Transfer) -> float:
        """The share of its speed that a transfer keeps while one of its ranks computes."""
        return min((self.left.get(link, 1.0) for link, n in moved.loads if n), default=1.0)


@dataclass(frozen=True, slots=True)
class Times:
    """When: int64 arrays of shape [ops, classes], in ns from the start.

    `issued`: the host began to issue it; `start`: this rank arrived; `end`.
    """

    issued: Int
    start: Int
    end: Int


def every_rank(by_rank: ByRank) -> Int:
    """Values by rank as an array: shape [ranks]."""
    counts, values = zip(*by_rank, strict=True)
    return np.repeat(np.asarray(values, dtype=np.int64), counts)


def instance(axis: Axis, n_ranks: int) -> Int:
    """The group of `axis` that each rank belongs to, as a number: shape [n_ranks]."""
    ranks = np.arange(n_ranks)
    block = axis.size * axis.stride
    return ranks // block * axis.stride + ranks % axis.stride


def timed(plan: Plan, cluster: Cluster, *, messages: bool = False) -> Program:
    """Give every op of a plan its duration on a cluster. Raises PlanError for years of work.

    `messages`: collectives that run as a ring are followed message by message.
    """
    axis_index = {axis.name: i for i, axis in enumerate(plan.axes)}
    streams: dict[str, int] = {}
    last_on_stream: dict[str, int] = {}
    last_on_communicator: dict[str, int] = {}
    capacity = capacities(cluster)
    costs: dict[tuple[object, ...], Cost] = {}
    issue = seconds_to_ns(cluster.host.issue_s), seconds_to_ns(cluster.host.collective_s)
    serial = cluster.contention.communicators
    known = OpTimes(cluster)
    ops: list[Timed] = []
    for op in plan.ops:
        before = [*op.after]
        if op.stream in last_on_stream:
            before.append(last_on_stream[op.stream])
        if serial and op.communicator is not None and op.communicator in last_on_communicator:
            before.append(last_on_communicator[op.communicator])
        axis = None if op.group is None else axis_index[op.group]
        # A layer's work is one object in all its ops; to hash what is in it takes longer.
        key = (op.kind, op.flops, op.memory_bytes, id(op.work), op.elements, op.dtype, op.group)
        if key not in costs:
            costs[key] = _cost(op, None if axis is None else plan.axes[axis], cluster)
        duration, moved, kernels, taken = costs[key]
        duration, kernels = known.of(op, duration, kernels)
        collective = op.kind in COMMUNICATION
        ops.append(
            Timed(
                stream=streams.setdefault(op.stream, len(streams)),
                after=tuple(dict.fromkeys(before)),
                issue_ns=issue[collective] * known.launches(op) if duration or collective else 0,
                duration_ns=duration,
                axis=axis,
                transfer=moved,
                ring=_ring(op, plan.axes[axis], moved, cluster)
                if messages and axis is not None and moved is not None
                else None,
                blocks=op.blocks or (cluster.host.computes and not collective),
                by_rank=_ns_by_rank(op, cluster),
                kernels=kernels,
                taken=taken,
            )
        )
        last_on_stream[op.stream] = op.id
        if op.communicator is not None:
            last_on_communicator[op.communicator] = op.id
    total = sum(op.duration_ns + op.issue_ns for op in ops)
    if total > MAX_NS:
        raise PlanError(
            f"the run would last {total / NS_PER_S:.3g} s, over {MAX_NS / NS_PER_S:.3g}: "
            "give a faster cluster or a smaller model"
        )
    return Program(
        plan.world_size,
        tuple(ops),
        plan.axes,
        capacity,
        _uneven(plan),
        cluster.contention,
        cluster.device.sms,
        {cluster.inter.name: cluster.contention.hosts} if cluster.contention.hosts < 1 else {},
    )


def _ring(op: Op, axis: Axis, moved: Transfer, cluster: Cluster) -> Ring | None:
    """A collective message by message, as long as `moved` if all ranks start together."""
    if axis.size == 1 or op.kind not in _RINGS or moved.by.partition("/")[0] != "ring":
        return None
    times = passes(op.kind, cluster.backend)
    message, rest = divmod(moved.alone_ns, times * (axis.size - 1))
    return Ring(((axis.size, axis.stride, message),) * times, 0, rest)


def _ns_by_rank(op: Op, cluster: Cluster) -> ByRank | None:
    if op.memory_bytes_by_rank is None:
        return None
    return tuple(
        (n, compute_ns(op.flops, nbytes, cluster.device, op.work))
        for n, nbytes in op.memory_bytes_by_rank
    )


def _uneven(plan: Plan) -> tuple[ByRank, ...]:
    taken = [a.by_rank for op in plan.ops for a in op.allocates]
    found = [
        *(op.memory_bytes_by_rank for op in plan.ops),
        *taken,
        *(a.by_rank for a in plan.persistent),
    ]
    return tuple(dict.fromkeys(by_rank for by_rank in found if by_rank is not None))


def _cost(op: Op, axis: Axis | None, cluster: Cluster) -> Cost:
    beside = cluster.contention.of_kernels
    if op.kind not in COMMUNICATION or op.nbytes is None or axis is None:
        duration = compute_ns(op.flops, op.memory_bytes, cluster.device, op.work)
        kernels = kernels_of(op, duration, cluster.device) if beside else None
        return duration, None, kernels, None
    moved = transfer(op.kind, op.nbytes, axis.size, cluster, axis.stride)
    return moved.alone_ns, moved, None, taken_by(op, axis, moved, cluster) if beside else None
