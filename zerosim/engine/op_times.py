"""Times that were measured op by op, in the place of what a formula says."""

from __future__ import annotations

from zerosim.cluster import Cluster
from zerosim.engine.contention import Kernels
from zerosim.kinds import COMMUNICATION
from zerosim.plan import Op
from zerosim.units import seconds_to_ns


class OpTimes:
    """What ops take by the times that a cluster knows, and what it takes to put gathered rows in place.

    Whoever first waits for an all-gather puts its rows in place before it begins.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._ns = {(op.kind, op.unit): seconds_to_ns(op.seconds) for op in cluster.ops}
        self._arriving: dict[int, int] = {}

    def launches(self, op: Op) -> int:
        """How many kernels the host issues for an op: one if nobody says, or the op's time is known."""
        if op.work is None or (str(op.kind), op.unit or "") in self._ns:
            return 1
        return op.work.kernels

    def of(self, op: Op, duration_ns: int, kernels: Kernels | None) -> tuple[int, Kernels | None]:
        """The time of the next op of a plan, where one is known, else the given one."""
        if not self._ns:
            return duration_ns, kernels
        own = self._ns.get((str(op.kind), op.unit or ""))
        if op.kind in COMMUNICATION:
            if own is not None:
                self._arriving[op.id] = own
            return duration_ns, kernels
        if own is not None:
            duration_ns, kernels = own, None
        duration_ns += sum(self._arriving.pop(before, 0) for before in op.after)
        return duration_ns, kernels
