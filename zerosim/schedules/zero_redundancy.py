"""torch's ZeroRedundancyOptimizer: DDP, but each rank updates whole parameters of its own."""

from __future__ import annotations

from dataclasses import dataclass

from zerosim.errors import ScenarioError
from zerosim.numerics import Numerics
from zerosim.partition import greedy
from zerosim.plan import Axis, Plan, uneven
from zerosim.schedules.arrival import defined, numel
from zerosim.schedules.ddp import DdpOptions, Draft, planned
from zerosim.schedules.knobs import knob
from zerosim.workload import Workload


@dataclass(frozen=True, slots=True)
class OwnerOptions(DdpOptions):
    """DDP's arguments, and the optimizer's."""

    parameters_as_bucket_view: bool = knob(False, "broadcast a rank's at once; of none, 1 element")
    process_group_size: int | None = knob(
        None,
        "ranks in a row that share the optimizer's states (process_group); none: all of them",
        "ranks",
        tries=(1, 2, 4),
    )


def zero_redundancy(
    workload: Workload, n_ranks: int, numerics: Numerics, options: OwnerOptions, steps: int = 1
) -> Plan:
    """DDP's step; then each rank updates its parameters and broadcasts them to all of its group."""
    given = options.process_group_size
    size = n_ranks if given is None else given
    if not 1 <= size <= n_ranks or n_ranks % size:
        raise ScenarioError(
            f"schedule.process_group_size is {size} of {n_ranks} ranks: it must divide them"
        )
    sizes = sorted((numel(workload, key) for key in defined(workload)), reverse=True)
    owned: list[list[int]] = [[] for _ in range(size)]
    for elements, owner in zip(sizes, greedy(sizes, size), strict=True):
        owned[owner].append(elements)
    loads = [sum(own) for own in owned]
    every = loads * (n_ranks // size)
    groups = (Axis("owners", size),) if size < n_ranks else ()
    told = "owners" if groups else "world"

    def step(draft: Draft) -> None:
        draft.update(every)
        for rank, own in enumerate(owned):
            for elements in [max(1, loads[rank])] if options.parameters_as_bucket_view else own:
                draft.broadcast(str(rank), elements, numerics.dtype, group=told)

    opt = uneven("optimizer", "optimizer", [load * numerics.optimizer_bytes for load in every])
    draft = Draft(workload, numerics, options)
    return planned("zero-redundancy", draft, n_ranks, steps, opt, step, groups)
