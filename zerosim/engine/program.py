"""A plan with times: what the engines run, whether it came from a schedule or from a peer's file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from zerosim.cluster import Cluster
from zerosim.collectives import Transfer, capacities, transfer
from zerosim.compute import compute_ns
from zerosim.errors import PlanError
from zerosim.kinds import COMMUNICATION
from zerosim.plan import Axis, ByRank, Op, Plan
from zerosim.units import NS_PER_S, seconds_to_ns

Int = NDArray[np.int64]
MAX_NS: Final = 2**56
"""Over two years: a longer run would overflow 64 bits once ranks differ."""


@dataclass(frozen=True, slots=True)
class Ring:
    """A message-level ring of all ranks, or rings within rings.

    `phases`, in the order they run: (ranks in the ring, ranks between neighbours, ns of a message).
    `endpoint_ns` is what it takes a rank to take a message up.
    """

    phases: tuple[tuple[int, int, int], ...]
    endpoint_ns: int

    @property
    def together_ns(self) -> int:
        """How long it takes when all ranks start together."""
        return sum((n - 1) * message + n * self.endpoint_ns for n, _, message in self.phases)


@dataclass(frozen=True, slots=True)
class Timed:
    """One op with its times in ns.

    `after` are all ops it waits for: the plan's, the one before it on its communicator, and the one
    before it on its stream. `axis` is an index into the program's axes, None for a local op.
    `transfer` is what a collective puts on the links; `ring` replaces the common end of its members.
    Where ranks differ, `by_rank` says how long each takes, and `duration_ns` is the longest.
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


@dataclass(frozen=True, slots=True)
class Program:
    """Timed ops in issue order for `n_ranks` ranks. `capacity` is bytes/s of each link.

    `uneven`: all that the plan says rank by rank, so that ranks that differ in it are told apart.
    """

    n_ranks: int
    ops: tuple[Timed, ...]
    axes: tuple[Axis, ...]
    capacity: dict[str, float]
    uneven: tuple[ByRank, ...] = ()


@dataclass(frozen=True, slots=True)
class Variation:
    """What differs between ranks.

    `speed`: (rank, factor) stretches all compute of a rank; `jitter`: relative spread of every op on
    every rank, lognormal, drawn from `seed`; `durations`: (op, ns per rank) given outright.
    """

    speed: tuple[tuple[int, float], ...] = ()
    jitter: float = 0.0
    seed: int = 0
    durations: tuple[tuple[int, tuple[int, ...]], ...] = ()

    @property
    def every_rank_differs(self) -> bool:
        """Whether no two ranks can be told to behave alike."""
        return self.jitter > 0 or bool(self.durations)


EQUAL = Variation()


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


def timed(plan: Plan, cluster: Cluster) -> Program:
    """Give every op of a plan its duration on a cluster. Raises PlanError for years of work."""
    axis_index = {axis.name: i for i, axis in enumerate(plan.axes)}
    streams: dict[str, int] = {}
    last_on_stream: dict[str, int] = {}
    last_on_communicator: dict[str, int] = {}
    capacity = capacities(cluster)
    costs: dict[tuple[object, ...], tuple[int, Transfer | None]] = {}
    issue = seconds_to_ns(cluster.host.issue_s), seconds_to_ns(cluster.host.collective_s)
    ops: list[Timed] = []
    for op in plan.ops:
        before = [*op.after]
        if op.stream in last_on_stream:
            before.append(last_on_stream[op.stream])
        if op.communicator is not None and op.communicator in last_on_communicator:
            before.append(last_on_communicator[op.communicator])
        axis = None if op.group is None else axis_index[op.group]
        key = (op.kind, op.flops, op.memory_bytes, op.work, op.elements, op.dtype, op.group)
        if key not in costs:
            costs[key] = _cost(op, None if axis is None else plan.axes[axis], cluster)
        duration, moved = costs[key]
        collective = op.kind in COMMUNICATION
        ops.append(
            Timed(
                stream=streams.setdefault(op.stream, len(streams)),
                after=tuple(dict.fromkeys(before)),
                issue_ns=issue[collective] if duration or collective else 0,
                duration_ns=duration,
                axis=axis,
                transfer=moved,
                blocks=op.blocks or (cluster.host.computes and not collective),
                by_rank=_ns_by_rank(op, cluster),
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
    return Program(plan.world_size, tuple(ops), plan.axes, capacity, _uneven(plan))


def _ns_by_rank(op: Op, cluster: Cluster) -> ByRank | None:
    if op.memory_bytes_by_rank is None:
        return None
    return tuple(
        (n, compute_ns(op.flops, nbytes, cluster.device)) for n, nbytes in op.memory_bytes_by_rank
    )


def _uneven(plan: Plan) -> tuple[ByRank, ...]:
    taken = [a.by_rank for op in plan.ops for a in op.allocates]
    found = [
        *(op.memory_bytes_by_rank for op in plan.ops),
        *taken,
        *(a.by_rank for a in plan.persistent),
    ]
    return tuple(dict.fromkeys(by_rank for by_rank in found if by_rank is not None))


def _cost(op: Op, axis: Axis | None, cluster: Cluster) -> tuple[int, Transfer | None]:
    if op.kind not in COMMUNICATION or op.nbytes is None or axis is None:
        return compute_ns(op.flops, op.memory_bytes, cluster.device), None
    moved = transfer(op.kind, op.nbytes, axis.size, cluster, axis.stride)
    return moved.alone_ns, moved


def durations(program: Program, variation: Variation, ranks: Sequence[int]) -> list[Int | int]:
    """What each op takes on each of `ranks`: a number where all agree, else an array.

    Jitter of an op is drawn from (seed, op) for ranks in order, so it depends on nothing else.
    """
    if variation == EQUAL and not program.uneven:
        return [op.duration_ns for op in program.ops]
    given = dict(variation.durations)
    factors = np.ones(program.n_ranks)
    for rank, factor in variation.speed:
        factors[rank] = factor
    chosen = np.asarray(ranks)
    uniform = bool((factors == 1.0).all()) and not variation.jitter
    rows: list[Int | int] = []
    for i, op in enumerate(program.ops):
        if i in given:
            rows.append(np.asarray(given[i], dtype=np.int64)[chosen])
        elif op.axis is not None or op.duration_ns == 0 or (uniform and op.by_rank is None):
            rows.append(op.duration_ns)
        else:
            alone = op.duration_ns if op.by_rank is None else every_rank(op.by_rank)[chosen]
            stretch = factors
            if variation.jitter:
                draw = np.random.default_rng((variation.seed, i)).standard_normal(program.n_ranks)
                stretch = factors * np.exp(variation.jitter * draw)
            rows.append(np.rint(alone * stretch[chosen]).astype(np.int64))
    return rows
