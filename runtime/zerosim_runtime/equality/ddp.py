"""torch's DistributedDataParallel beside the `ddp` schedule."""

from __future__ import annotations

from typing import Final

from torch.nn.parallel import DistributedDataParallel

from zerosim_runtime.equality.case import Case, scenario_of
from zerosim_runtime.equality.marked import batches, marked_model
from zerosim_runtime.equality.seen import Seen
from zerosim_runtime.equality.watch import Record, watching

NEEDS: Final = ("torch",)


def observe(case: Case, rank: int) -> list[Seen]:
    """Train the case's model under DDP and return what this rank was seen to do."""
    scenario, record = scenario_of(case), Record()
    engine = DistributedDataParallel(marked_model(scenario, record))
    with watching(record):
        for batch in batches(scenario, record, rank):
            engine(batch).backward()
    return record.seen


CASES: Final[tuple[Case, ...]] = (
    Case(
        "one-bucket",
        "ddp",
        2,
        {
            "workload": {"layers": 3, "hidden": 16, "micro_batch": 2},
            "schedule": {"name": "ddp"},
            "numerics": {"dtype": "float32"},
        },
        reduced=True,
    ),
)
