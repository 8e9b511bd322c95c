"""The arguments of ColossalAI's LowLevelZeroOptimizer, before and after its even split."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from zerosim.errors import ScenarioError
from zerosim.schedules.knobs import knob

_MEBI: Final = 2**20


@dataclass(frozen=True, slots=True)
class BucketOptions:
    """How gradients are put into buckets, and whether reducing overlaps."""

    reduce_bucket_size: int = knob(
        _MEBI,
        "a gradient that would make a bucket larger has it reduced first; after the even split, "
        "parameters are gathered in buckets of so many elements a rank",
        "elements",
        tries=(1, 30, 400),
        hides=True,
    )
    reduce_bucket_size_in_m: int | None = knob(
        None,
        "the same as LowLevelZeroPlugin takes it (12 there); none: reduce_bucket_size",
        "Mi elements",
        tries=(1,),
        hides=True,
    )
    overlap_communication: bool = knob(
        False,
        "reduce on a stream of its own while the backward runs (LowLevelZeroPlugin: true)",
        hides=True,
    )

    @property
    def bucket_elements(self) -> int:
        """The bucket size that holds."""
        in_m = self.reduce_bucket_size_in_m
        return self.reduce_bucket_size if in_m is None else in_m * _MEBI


@dataclass(frozen=True, slots=True)
class LowLevelOptions(BucketOptions):
    """What the even split added."""

    overlap_allgather: bool = knob(
        False, "gather each parameter by itself; the next forward waits where it needs it"
    )
    no_sync: bool = knob(
        False, "all micro-batches but the last run in no_sync(): gradients add up, nothing travels"
    )
    drop_layers: str = knob(
        "",
        "layers that the forward leaves out, by name, commas between (layer drop)",
        tries=("",),
    )


@dataclass(frozen=True, slots=True)
class OldOptions(BucketOptions):
    """Arguments before the even split, at either ZeRO stage."""

    def __post_init__(self) -> None:
        """Refuse a bucket that holds nothing."""
        _check(self)


@dataclass(frozen=True, slots=True)
class Stage1Options(LowLevelOptions):
    """Arguments at ZeRO stage 1."""

    def __post_init__(self) -> None:
        """Refuse a bucket that holds nothing."""
        _check(self)


@dataclass(frozen=True, slots=True)
class Stage2Options(LowLevelOptions):
    """Arguments at ZeRO stage 2 (`partition_grad`)."""

    def __post_init__(self) -> None:
        """Refuse what the engine refuses."""
        _check(self)
        if self.no_sync:
            raise ScenarioError(
                "schedule.no_sync is true: ColossalAI says 'ZeRO2(partition_grads) and no_sync are "
                "not compatible'; leave it false, or take colossalai-1"
            )


def _check(options: BucketOptions) -> None:
    if options.bucket_elements < 1:
        raise ScenarioError(
            f"schedule.reduce_bucket_size is {options.bucket_elements}: give at least 1 element"
        )
