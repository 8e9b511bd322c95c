"""Times that were measured op by op, in the place of what a formula says."""

from __future__ import annotations

from typing import Final

from zerosim.cluster import Cluster
from zerosim.engine.contention import Kernels
from zerosim.kinds import COMMUNICATION, Kind
from zerosim.plan import Op
from zerosim.units import seconds_to_ns

_STEP: Final = (str(Kind.HOST), "step")


class OpTimes:
    """What ops take by the times that a cluster knows, and what it takes to put gathered rows in place.

    Whoever first waits for an all-gather puts its rows in place before it begins.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._ns = {(op.kind, op.unit): seconds_to_ns(op.seconds) for op in cluster.ops}
        self._arriving: dict[int, int] = {}
        self._steps: set[int] = set()

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
        if op.step not in self._steps:
            self._steps.add(op.step)
            duration_ns += self._ns.get(_STEP, 0) if len(self._steps) > 1 else 0
        return duration_ns, kernels
