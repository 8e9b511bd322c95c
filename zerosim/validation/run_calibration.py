"""A calibration from runs of real ranks: what each layer's computing takes, what issuing and links cost.

# Note [What a run tells]
An op's time is the median over ranks and steady steps. Whoever first waits for a gather puts its rows
in place before it starts: what lies between the gather's end (or its own issue) and its start is the
gather's. The host's cost of an op lies between its end and the next issue; of a collective, between
two issues. A transfer counts from its last rank's start to its end, if nothing else was on the link;
a straight line over their bytes gives the share of the rate, and what each costs beside its bytes.
What those take longer that run while a rank computes says how much of their speed is left beside it.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

import numpy as np
from numpy.typing import NDArray

from zerosim.analysis.intervals import Intervals, clip, measure, union
from zerosim.cluster import Cluster, OpTime
from zerosim.collectives import transfer
from zerosim.errors import MeasurementError
from zerosim.hardware.calibration import Calibration, FabricConstants, LauncherConstants
from zerosim.kinds import Kind
from zerosim.scenario import Scenario, cluster_of, machine_of
from zerosim.trace import Trace
from zerosim.units import NS_PER_S, read_rate
from zerosim.validation.run_ops import Done, done_by_rank, is_collective, scenario_of

_DIGITS: Final = 6
_LEAST: Final = 3
"""Transfers that a line is drawn through, at least."""
_SPREAD: Final = 1.5
"""The largest transfer is so much larger than the smallest, at least, for a line of its own."""
_BESIDE: Final = 0.25
"""Transfers spend shares of their time beside computing that lie so far apart, at least, to tell its cost."""
_MOST_LOST: Final = 0.95
"""Of a transfer's speed, beside computing."""
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Moved:
    """A transfer that had its link to itself: bytes over the link, the rate it has, what it took.

    `computing`: for how many of these seconds some rank computed.
    """

    nbytes: int
    rate: float
    seconds: float
    computing: float = 0.0


def calibrated(runs: Sequence[Trace]) -> Calibration:
    """The calibration of measured runs of one machine. See Note [What a run tells].

    Raises MeasurementError for runs that real ranks of a scenario did not make, or that have no op.
    """
    if not runs:
        raise MeasurementError("no run is given: give one that zerosim trace or zerosim lab made")
    every = [(run, scenario_of(run), done_by_rank(run)) for run in runs]
    names = ", ".join(dict.fromkeys(run.meta.name for run in runs))
    source = f"fitted on {len(runs)} run{'s' if len(runs) > 1 else ''} of {names}"
    ranks = [rank for _, _, by_rank in every for rank in by_rank]
    machine, cluster = machine_of(every[0][1]), cluster_of(every[0][1])
    moved = [m for _, scenario, by_rank in every for m in transfers(scenario, by_rank)]
    line = None
    if machine.fabric:
        line = line_through(moved, machine.own.fabric[machine.fabric].share, source)
    return Calibration(
        fabric={} if line is None else {machine.fabric: line},
        launcher={machine.launcher: launcher(ranks, cluster, source)},
        op=op_times(ranks, source),
        provenance={
            "what": "constants that zerosim calibrate found in runs of real ranks",
            "runs": ", ".join(
                f"{r.meta.name} ({s.schedule.name}, {_link(s)})" for r, s, _ in every
            ),
            "machine": machine.name,
        },
    )


def op_times(ranks: Iterable[Sequence[Done]], source: str) -> tuple[OpTime, ...]:
    """Seconds of each op that computes, and of putting each gather's rows in place: medians."""
    found: dict[tuple[str, str], list[int]] = defaultdict(list)
    for rank in ranks:
        unread: dict[int, Done] = {}
        ended = {done.op.id: done.end_ns for done in rank}
        for done in rank:
            if done.op.kind is Kind.ALL_GATHER:
                unread[done.op.id] = done
            if is_collective(done) or done.op.kind is Kind.WAIT:
                continue
            found[str(done.op.kind), done.op.unit or ""].append(done.end_ns - done.start_ns)
            read = [unread.pop(before) for before in done.op.after if before in unread]
            if len(read) == 1:
                waits = max([done.issued_ns, *(ended.get(i, 0) for i in done.op.after)])
                found[str(Kind.ALL_GATHER), read[0].op.unit or ""].append(
                    max(0, done.start_ns - waits)
                )
    return tuple(
        OpTime(kind, unit, _rounded(median(taken) / NS_PER_S), source)
        for (kind, unit), taken in sorted(found.items())
    )


def launcher(ranks: Sequence[Sequence[Done]], cluster: Cluster, source: str) -> LauncherConstants:
    """What issuing a collective and an op costs the host; as it was where none was issued."""
    collective, kernel = [], []
    for done in (done for rank in ranks for done in rank):
        if done.next_ns is None:
            continue
        if is_collective(done):
            collective.append(done.next_ns - done.issued_ns)
        elif not done.op.blocks:
            kernel.append(max(0, done.next_ns - done.end_ns))
    return LauncherConstants(
        issue_s=_seconds(collective, cluster.host.collective_s),
        kernel_s=_seconds(kernel, cluster.host.issue_s),
        source=source,
    )


def transfers(scenario: Scenario, by_rank: Sequence[Sequence[Done]]) -> list[Moved]:
    """The collectives of a run that had their links to themselves."""
    cluster, rate = cluster_of(scenario), nominal_rate(scenario)
    members: dict[int, list[Done]] = defaultdict(list)
    for done in (done for rank in by_rank for done in rank):
        if done.collective is not None:
            members[done.collective].append(done)
    spans = {
        number: (max(d.start_ns for d in all_), max(d.end_ns for d in all_), all_[0].op)
        for number, all_ in members.items()
        if len(all_) == len(by_rank)
    }
    computed = [
        (done.start_ns, done.end_ns)
        for rank in by_rank
        for done in rank
        if not is_collective(done) and done.op.kind is not Kind.WAIT
    ]
    busy = union(Intervals(*np.asarray(computed, dtype=np.int64).reshape(-1, 2).T))
    found = []
    for number, (start, end, op) in spans.items():
        if any(s < end and start < e for n, (s, e, _) in spans.items() if n != number):
            continue
        loads = dict(transfer(op.kind, op.nbytes or 0, len(by_rank), cluster).loads)
        nbytes = loads.get(cluster.inter.name, 0)
        if nbytes:
            computing = measure(clip(busy, start, end))
            found.append(Moved(nbytes, rate, (end - start) / NS_PER_S, computing / NS_PER_S))
    return found


def nominal_rate(scenario: Scenario) -> float:
    """Bytes a second of the link between nodes, before what its network leaves of it."""
    machine = machine_of(scenario)
    if scenario.cluster.inter_busbw is not None:
        return scenario.cluster.inter_busbw
    if scenario.cluster.inter is not None:
        return read_rate(scenario.cluster.inter)
    return machine.inter.busbw


def line_through(moved: Sequence[Moved], share: float, source: str) -> FabricConstants | None:
    """Seconds = base + bytes / reached + what is lost of the time beside computing; None for too few.

    Least squares of relative errors. Where more arrives than `share` of the rate, that is the share;
    where less, hosts hold it up, and what they could push is what is missing (Note [Two legs] in
    zerosim.hardware.calibration).
    """
    if len(moved) < _LEAST:
        return None
    rate = float(np.median([m.rate for m in moved]))
    ideal = np.asarray([m.nbytes / m.rate for m in moved])
    seconds = np.asarray([m.seconds for m in moved])
    beside = np.asarray([m.computing for m in moved])
    base, lost = _base_and_lost(ideal, seconds, beside)
    slope = float(np.median((seconds - base - lost * beside) / ideal))
    host = None
    if slope * share > 1:
        host = _pushed(slope, share, rate)
    else:
        share = min(1.0, 1.0 / slope)
    computing = _pushed(slope / (1 - lost), share, rate) if lost else None
    return FabricConstants(0.0, _rounded(share), source, _rounded(base), host, computing)


def _base_and_lost(ideal: Floats, seconds: Floats, beside: Floats) -> tuple[float, float]:
    """What each transfer costs beside its bytes, and the share of its time beside computing that is lost.

    Each is 0 where the transfers are too much alike to tell it.
    """
    known = [np.ones_like(ideal)] if ideal.max() >= _SPREAD * ideal.min() else []
    columns = [*known, ideal]
    if np.ptp(beside / seconds) >= _BESIDE:
        columns.append(beside)
    found, *_ = np.linalg.lstsq(
        np.stack(columns, axis=1) / seconds[:, None], np.ones_like(seconds), rcond=None
    )
    base = min(max(float(found[0]), 0.0), float(seconds.min())) if known else 0.0
    lost = float(found[-1]) if len(columns) > len(known) + 1 else 0.0
    return base, min(max(lost, 0.0), _MOST_LOST)


def _pushed(slope: float, share: float, rate: float) -> float | None:
    """Bytes a second that hosts push if, of their two legs, a transfer takes `slope` times the ideal.

    None if that is no more than the link alone takes: hosts hold nothing up.
    """
    beyond = slope**2 - 1 / share**2
    return _rounded(rate / math.sqrt(beyond)) if beyond > 0 else None


def _link(scenario: Scenario) -> str:
    machine, n_ranks = machine_of(scenario), scenario.cluster.world_size
    if not machine.fabric:
        return f"{n_ranks} ranks, {machine.name}"
    return f"{n_ranks} ranks, {nominal_rate(scenario) * 8 / 1e6:.0f} Mbit/s"


def _seconds(taken: Sequence[int], otherwise: float) -> float:
    return _rounded(median(taken) / NS_PER_S) if taken else otherwise


def _rounded(seconds: float) -> float:
    return float(f"{seconds:.{_DIGITS}g}")
