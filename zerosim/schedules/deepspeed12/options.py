"""The knobs of DeepSpeed ZeRO-1 and ZeRO-2, as in the `zero_optimization` of a ds_config."""

from __future__ import annotations

from dataclasses import dataclass, replace

from zerosim.errors import ScenarioError
from zerosim.numerics import Numerics
from zerosim.schedules.deepspeed12.ipg import ALIGNMENT
from zerosim.schedules.deepspeed_dtypes import DTYPES, check_dtypes
from zerosim.schedules.knobs import knob


@dataclass(frozen=True, slots=True)
class DeepSpeedOptions:
    """Names and defaults of DeepSpeed 0.19.8 (runtime/zero/config.py)."""

    reduce_bucket_size: int = knob(
        500_000_000,
        "gradients are reduced before a bucket would grow past this",
        "elements",
        tries=(1, 40, 300),
        hides=True,
    )
    overlap_comm: bool = knob(
        False,
        "reduce on a stream of its own while the backward runs; one reduction at a time, "
        "and a second bucket buffer",
        hides=True,
    )
    contiguous_gradients: bool = knob(
        True, "copy gradients into a bucket buffer that is allocated whole"
    )
    reduce_scatter: bool = knob(True, "reduce slices to their owners; false: the bucket in place")
    use_multi_rank_bucket_allreduce: bool = knob(
        True, "all-reduce the slices of all owners at once; false: one reduce for each owner"
    )
    round_robin_gradients: bool = knob(False, "deal parameters to ranks before they are flattened")
    parameter_alignment: bool = knob(False, "start each parameter at a multiple of 16 bytes")
    compute_grad_norm: bool = knob(True, "all-reduce the gradients' norm before the update")
    communication_data_type: str | None = knob(
        None, "dtype in which gradients are reduced; none: that of the run", choices=(*DTYPES,)
    )
    grad_accum_dtype: str | None = knob(
        None,
        "dtype in which ZeRO-2 accumulates gradients (section data_types); none: the gradients'",
        choices=(*DTYPES,),
    )
    allgather_bucket_size: int = knob(
        500_000_000,
        "no effect: DeepSpeed gathers all parameters at once wherever torch can",
        "elements",
        tries=(2, 64),
    )
    allgather_partitions: bool = knob(True, "no effect: DeepSpeed reads it nowhere")

    def __post_init__(self) -> None:
        """Refuse what DeepSpeed refuses."""
        if self.reduce_bucket_size < 1:
            raise ScenarioError(
                f"schedule.reduce_bucket_size is {self.reduce_bucket_size}: "
                "DeepSpeed takes elements greater than 0"
            )
        if self.allgather_bucket_size < 0 or self.allgather_bucket_size % ALIGNMENT:
            raise ScenarioError(
                f"schedule.allgather_bucket_size is {self.allgather_bucket_size}: DeepSpeed takes "
                f"a multiple of nccl_start_alignment_factor, {ALIGNMENT}"
            )
        check_dtypes(self.communication_data_type, self.grad_accum_dtype)


def accumulated(options: DeepSpeedOptions, numerics: Numerics) -> Numerics:
    """The numerics, with gradients in the dtype in which they are accumulated."""
    if options.grad_accum_dtype is None:
        return numerics
    own = numerics.reduce_dtype != numerics.grad_dtype
    return replace(
        numerics,
        grad_dtype=DTYPES[options.grad_accum_dtype],
        reduce_dtype=numerics.reduce_dtype if own else "",
    )
