"""torch's ZeroRedundancyOptimizer: DDP, but each rank updates whole parameters of its own."""

from __future__ import annotations

from dataclasses import dataclass

from zerosim.numerics import Numerics
from zerosim.partition import greedy
from zerosim.plan import Plan, uneven
from zerosim.schedules.arrival import defined, numel
from zerosim.schedules.ddp import DdpOptions, Draft, planned
from zerosim.schedules.knobs import knob
from zerosim.workload import Workload


@dataclass(frozen=True, slots=True)
class OwnerOptions(DdpOptions):
    """DDP's arguments, and the optimizer's."""

    parameters_as_bucket_view: bool = knob(False, "broadcast a rank's at once; of none, 1 element")


def zero_redundancy(
    workload: Workload, n_ranks: int, numerics: Numerics, options: OwnerOptions, steps: int = 1
) -> Plan:
    """DDP's step; then each rank updates its parameters and broadcasts them to all."""
    sizes = sorted((numel(workload, key) for key in defined(workload)), reverse=True)
    owned: list[list[int]] = [[] for _ in range(n_ranks)]
    for size, owner in zip(sizes, greedy(sizes, n_ranks), strict=True):
        owned[owner].append(size)
    loads = [sum(own) for own in owned]

    def step(draft: Draft) -> None:
        draft.update(loads)
        for rank, own in enumerate(owned):
            for size in [max(1, loads[rank])] if options.parameters_as_bucket_view else own:
                draft.broadcast(str(rank), size, numerics.dtype)

    opt = uneven("optimizer", "optimizer", [load * numerics.optimizer_bytes for load in loads])
    return planned("zero-redundancy", Draft(workload, numerics, options), n_ranks, steps, opt, step)
