"""torch's ZeroRedundancyOptimizer over DDP beside the `zero-redundancy` schedule."""

from __future__ import annotations

import warnings
from typing import Any, Final

import torch
from torch import nn

from zerosim.schedules.zero_redundancy import OwnerOptions
from zerosim_runtime.equality.case import Case, scenario_of
from zerosim_runtime.equality.ddp import trained
from zerosim_runtime.equality.seen import Seen

NEEDS: Final = ("torch",)


def observe(case: Case, rank: int) -> list[Seen]:
    """Train the case's model and return what this rank was seen to do."""
    options = OwnerOptions(**scenario_of(case).schedule.options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's own package uses what torch deprecates
        from torch.distributed.optim import ZeroRedundancyOptimizer  # noqa: PLC0415 - same

    def optimizer(model: nn.Module) -> torch.optim.Optimizer:
        return ZeroRedundancyOptimizer(
            model.parameters(),
            optimizer_class=torch.optim.AdamW,
            parameters_as_bucket_view=options.parameters_as_bucket_view,
        )

    return trained(case, rank, options, optimizer)


def _case(
    name: str,
    ranks: int,
    workload: dict[str, Any],
    *,
    reduced: bool = False,
    **options: float,
) -> Case:
    scenario = {
        "workload": {"layers": 3, "hidden": 16, "micro_batch": 2} | workload,
        "schedule": {"name": "zero-redundancy"} | options,
        "numerics": {"dtype": "float32"},
        "run": {"steps": 3},
    }
    return Case(name, "zero-redundancy", ranks, scenario, reduced=reduced)


_GPT: Final = {"model": "gpt", "heads": 2, "vocab": 32, "seq": 4}
_FEW: Final = {"layers": 1}
CASES: Final[tuple[Case, ...]] = (
    _case("uniform", 2, {}, reduced=True),
    _case("uniform-views", 2, {}, parameters_as_bucket_view=True, reduced=True),
    _case("fewer-parameters-than-ranks", 4, _FEW),
    _case("fewer-parameters-than-ranks-views", 4, _FEW, parameters_as_bucket_view=True),
    _case("micro-batches", 3, {"micro_batches": 2}, bucket_cap_mb=0.001),
    _case("gpt", 4, _GPT, bucket_cap_mb=0.01),
    _case("gpt-views", 4, _GPT, bucket_cap_mb=0.01, parameters_as_bucket_view=True),
    _case("gpt-tied", 3, _GPT | {"tied": True}),
)
