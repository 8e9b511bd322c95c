"""The knobs of DeepSpeed's ZeRO-3, under the names and defaults of its ds_config.json."""

from __future__ import annotations

import sys
from dataclasses import dataclass, fields
from typing import Final

from zerosim.errors import ScenarioError
from zerosim.numerics import Numerics
from zerosim.schedules.deepspeed_dtypes import DTYPES, check_dtypes, communication_dtype
from zerosim.schedules.knobs import knob

_SMALL: Final = (0, 1, 30, 100, 1000)
"""Elements that matter to the small models of the property tests."""


@dataclass(frozen=True, slots=True)
class DeepSpeed3Options:
    """Section `zero_optimization` of a ds_config.json with stage 3 (runtime/zero/config.py).

    `communication_data_type` stands outside it, `grad_accum_dtype` in `data_types`; `use_reentrant`
    is an argument of torch.utils.checkpoint. Offload, ZeRO++ and MiCS are not modelled.
    """

    stage3_prefetch_bucket_size: int = knob(
        50_000_000,
        "elements gathered ahead of use by each module; the last parameter may overshoot",
        "elements",
        alias="prefetch_bucket_size",
        tries=_SMALL,
    )
    stage3_max_live_parameters: int = knob(
        1_000_000_000,
        "elements gathered at most; limits prefetching only, never a gather that is needed now",
        "elements",
        alias="max_live_parameters",
        tries=_SMALL,
    )
    stage3_max_reuse_distance: int = knob(
        1_000_000_000,
        "a parameter that comes again within so many elements is not dropped",
        "elements",
        alias="max_reuse_distance",
        tries=_SMALL,
    )
    stage3_param_persistence_threshold: int = knob(
        100_000,
        "parameters of at most so many elements stay gathered; each is gathered alone after a step",
        "elements",
        alias="param_persistence_threshold",
        tries=_SMALL,
    )
    stage3_model_persistence_threshold: int = knob(
        sys.maxsize,
        "elements of all persistent parameters together",
        "elements",
        alias="model_persistence_threshold",
        tries=_SMALL,
    )
    stage3_module_granularity_threshold: int = knob(
        0,
        "modules of at most so many elements for each module inside are gathered whole; 0: none",
        "elements",
        alias="module_granularity_threshold",
        tries=_SMALL,
    )
    stage3_allgather_sequential: bool = knob(
        default=False,
        says="gathers each parameter alone, without copies; the prefetch bucket is then one element",
        alias="allgather_sequential",
    )
    stage3_use_all_reduce_for_fetch_params: bool = knob(
        default=False,
        says="fetches several parameters by an all-reduce of zeros and shards, which needs no copies",
        alias="use_all_reduce_for_fetch_params",
    )
    leaf_module: str = knob(
        "",
        "names of modules that are gathered whole (leaf_module.names), separated by commas",
        tries=("0",),
    )
    sub_group_size: int = knob(
        1_000_000_000,
        "elements of this rank's shard that the optimizer updates at once",
        "elements",
        tries=_SMALL,
    )
    reduce_bucket_size: int = knob(
        500_000_000,
        "elements of the gradient bucket: reduced before the gradient that would not fit",
        "elements",
        tries=(1, 30, 100, 1000),
        hides=True,
    )
    overlap_comm: bool = knob(
        default=True,
        says="gathers and reduces on streams of their own",
        hides=True,
    )
    contiguous_gradients: bool = knob(
        default=True, says="copies gradients into one bucket of reduce_bucket_size as they come"
    )
    reduce_scatter: bool = knob(
        default=True,
        says="reduce-scatters gradients; else all-reduces the bucket and keeps a slice of it",
    )
    memory_efficient_linear: bool = knob(
        default=True,
        says="replaces torch's linear, so that a weight's gradient comes before its bias's, not after",
    )
    communication_data_type: str | None = knob(
        None, "dtype in which gradients are reduced; none: that of the run", choices=(*DTYPES,)
    )
    grad_accum_dtype: str | None = knob(
        None,
        "dtype in which gradient shards are kept (section data_types); none: that of the gradients",
        choices=(*DTYPES,),
    )
    use_reentrant: bool = knob(
        default=False,
        says="activation checkpointing runs the forward again as a forward of its own",
    )

    def __post_init__(self) -> None:
        """Refuse what DeepSpeed's config refuses."""
        for field in fields(self):
            value, least = getattr(self, field.name), 1 if field.name == "reduce_bucket_size" else 0
            if type(value) is int and value < least:
                raise ScenarioError(
                    f"schedule.{field.name} is {value}: DeepSpeed takes {least} or more"
                )
        check_dtypes(self.communication_data_type, self.grad_accum_dtype)

    @property
    def prefetch(self) -> int:
        """The prefetch bucket in force: gathering one by one, the engine makes it one element."""
        return 1 if self.stage3_allgather_sequential else self.stage3_prefetch_bucket_size

    @property
    def leaves(self) -> tuple[str, ...]:
        """The names in `leaf_module`."""
        return tuple(name.strip() for name in self.leaf_module.split(",") if name.strip())

    def reduced_dtype(self, numerics: Numerics) -> str:
        """The dtype in which gradients are reduced: that of the run, whatever shards are kept in."""
        return communication_dtype(self.communication_data_type, numerics)

    def kept_dtype(self, numerics: Numerics) -> str:
        """The dtype in which gradient shards are kept."""
        return DTYPES[self.grad_accum_dtype] if self.grad_accum_dtype else numerics.grad_dtype
