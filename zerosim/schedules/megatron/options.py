"""The arguments of Megatron-LM's distributed optimizer that change what it sends, and when."""

from __future__ import annotations

from dataclasses import dataclass

from zerosim.errors import ScenarioError
from zerosim.schedules.knobs import knob


@dataclass(frozen=True, slots=True)
class MegatronOptions:
    """Arguments of DistributedDataParallelConfig and OptimizerConfig, with their defaults."""

    overlap_grad_reduce: bool = knob(
        False,
        "reduce-scatter each bucket as soon as its gradients are there; else all at the end",
        hides=True,
    )
    overlap_param_gather: bool = knob(
        False,
        "gather each bucket in the next forward, one ahead; else all after the update",
        hides=True,
    )
    bucket_size: int | None = knob(
        None,
        "a bucket closes when it holds so many; none: max(40e6, 1e6·ranks). "
        "Without overlap_grad_reduce there is one bucket",
        "elements",
        alias="ddp_bucket_size",
        tries=(1, 30, 400),
        hides=True,
    )
    grad_reduce_in_fp32: bool | None = knob(
        None,
        "gradients are summed and reduced in float32; none: if parameters are bfloat16",
        alias="accumulate_allreduce_grads_in_fp32",
    )
    pad_buckets_for_high_nccl_busbw: bool = knob(
        False, "pad buckets to a multiple of 2^16 elements too"
    )

    def __post_init__(self) -> None:
        """Refuse what the engine refuses."""
        if self.overlap_param_gather and not self.overlap_grad_reduce:
            raise ScenarioError(
                "schedule.overlap_param_gather is true: Megatron says 'Must use "
                "--overlap-param-gather with --overlap-grad-reduce'; set overlap_grad_reduce too"
            )
        if self.bucket_size is not None and self.bucket_size < 1:
            raise ScenarioError(
                f"schedule.bucket_size is {self.bucket_size}: give at least 1 element"
            )
