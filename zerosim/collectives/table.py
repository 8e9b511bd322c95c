"""A measured table: the time of a collective is read off what a benchmark measured.

Between two sizes times lie on a line in the logarithms of both; below the smallest size a collective
takes as long as the smallest, and above the largest its bandwidth stays.
"""

from __future__ import annotations

import math
from bisect import bisect_left

from zerosim.cluster import Cluster, Measured
from zerosim.collectives.placement import Placement, Transfer, slowest_s
from zerosim.collectives.ring import ring_loads
from zerosim.collectives.volume import passes
from zerosim.errors import ScenarioError
from zerosim.kinds import Kind
from zerosim.units import seconds_to_ns


def table(kind: Kind, nbytes: int, group: Placement, cluster: Cluster) -> Transfer:
    """The measured time; what the links need for their bytes is wire, what is left is latency.

    Raises ScenarioError for a kind, ranks or nodes that nobody measured.
    """
    passes(kind, cluster.backend)
    seconds = read_off(_series(kind, group, cluster), nbytes)
    loads = ring_loads(kind, nbytes, group, cluster)
    wire_s = min(seconds, slowest_s(loads, cluster))
    latency_ns = seconds_to_ns(seconds - wire_s)
    return Transfer(latency_ns, loads, max(0, seconds_to_ns(seconds) - latency_ns), by="table")


def read_off(series: Measured, nbytes: int) -> float:
    """Seconds that the series says for `nbytes`."""
    sizes = [size for size, _ in series.times]
    if nbytes <= sizes[0]:
        return series.times[0][1]
    if nbytes >= sizes[-1]:
        last, seconds = series.times[-1]
        return seconds * nbytes / last
    above = bisect_left(sizes, nbytes)
    (left, before), (right, after) = series.times[above - 1], series.times[above]
    way = math.log(nbytes / left) / math.log(right / left)
    return math.exp(math.log(before) + way * math.log(after / before))


def _series(kind: Kind, group: Placement, cluster: Cluster) -> Measured:
    wanted = (kind, group.n_ranks, group.n_nodes)
    for series in cluster.measured:
        if (series.kind, series.n_ranks, series.n_nodes) == wanted:
            return series
    known = sorted({(m.kind, m.n_ranks, m.n_nodes) for m in cluster.measured})
    listed = ", ".join(f"{k} over {n} on {nodes}" for k, n, nodes in known[:4]) or "nothing"
    raise ScenarioError(
        f"nobody measured {kind} over {group.n_ranks} ranks on {group.n_nodes} nodes of "
        f"'{cluster.name}' (measured: {listed}): measure it, or give another cluster.collectives"
    )
