"""Frameworks by the words of sources, and the schedule of ours that does what each does.

A row's framework is the first of `ENGINES` whose words it has; no word of any: the row is left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from zerosim.validation.cells import Default, short
from zerosim.validation.dtypes import compute_dtype, mixed
from zerosim.validation.rows import StepRow


@dataclass(frozen=True, slots=True)
class Choice:
    """The schedule, its options and the numerics of a row, with the blanks that were filled."""

    schedule: str
    options: dict[str, Any]
    numerics: dict[str, Any]
    defaults: tuple[Default, ...] = ()


@dataclass(frozen=True, slots=True)
class Engine:
    """Frameworks that have one of `words` in their name, and what they do, with the reason."""

    words: tuple[str, ...]
    choose: Callable[[StepRow], Choice]
    why: str


def choice_of(row: StepRow) -> Choice:
    """What a row's framework does. Raises MeasurementError where no schedule does that."""
    named = row.framework.lower()
    for engine in ENGINES:
        if any(word in named for word in engine.words):
            return engine.choose(row)
    raise row.refused(f"framework is '{short(row.framework)}': no schedule does what it does")


def _fsdp1(row: StepRow, **options: Any) -> Choice:  # noqa: ANN401 - options of a schedule
    if row.zero_stage == 0 or row.shard_group == 1 < row.n_gpus:
        options["sharding_strategy"] = "NO_SHARD"
    else:
        two = row.zero_stage == 2  # noqa: PLR2004 - the ZeRO stage
        options["sharding_strategy"] = "SHARD_GRAD_OP" if two else "FULL_SHARD"
        if row.shard_group < row.n_gpus:
            options["sharding_strategy"] = "_HYBRID_SHARD_ZERO2" if two else "HYBRID_SHARD"
            options["shard_mesh_size"] = row.shard_group
    numerics, defaults = mixed(row, "float32")
    return Choice("fsdp1", options, numerics, tuple(defaults))


def _composer(row: StepRow) -> Choice:
    return _fsdp1(row, backward_prefetch="BACKWARD_POST")


def _accumulating(row: StepRow) -> Choice:
    return _fsdp1(row, no_sync=True)


def _fsdp2(row: StepRow) -> Choice:
    options: dict[str, Any] = {}
    if row.zero_stage == 2:  # noqa: PLR2004 - the ZeRO stage
        options["reshard_after_forward"] = False
    if row.shard_group < row.n_gpus:
        options["shard_mesh_size"] = row.shard_group
    numerics, defaults = mixed(row, "float32")
    return Choice("fsdp2", options, numerics, tuple(defaults))


def _yafsdp(row: StepRow) -> Choice:
    numerics, defaults = mixed(row, "float32")
    return Choice("zero3", {"prefetch": 1}, numerics, tuple(defaults))


def _deepspeed(row: StepRow) -> Choice:
    if row.zero_stage not in (1, 2, 3):
        return _ddp(row)
    if row.shard_group < row.n_gpus:
        raise row.refused(
            f"DeepSpeed shards over {row.shard_group} of {row.n_gpus} GPUs (MiCS, hpZ): "
            "not modelled; leave the row out"
        )
    options: dict[str, Any] = {}
    defaults: list[Default] = []
    if row.zero_stage == 3:  # noqa: PLR2004 - the ZeRO stage
        hidden = row.sizes.hidden
        options = {
            "reduce_bucket_size": hidden * hidden,
            "stage3_prefetch_bucket_size": hidden * hidden * 9 // 10,
            "stage3_param_persistence_threshold": 10 * hidden,
        }
        defaults.append(Default("buckets", "auto", "as transformers fills them in from hidden"))
    else:
        options |= _deepspeed12(row)
    dtype = compute_dtype(row)
    return Choice(f"deepspeed-{row.zero_stage}", options, {"dtype": dtype}, tuple(defaults))


def _deepspeed12(row: StepRow) -> dict[str, Any]:
    """What a row says of DeepSpeed's buckets; before 2023 each owner was sent its slice.

    Buckets of several owners that are all-reduced came with DeepSpeed's blogs/comm-opt.
    """
    options: dict[str, Any] = {}
    if "overlap_comm" in (row.raw.text("notes") or ""):
        options["overlap_comm"] = True
    if (row.raw.text("date") or "9999")[:4] < "2023":
        options["use_multi_rank_bucket_allreduce"] = False
    return options


def _zero1(row: StepRow) -> Choice:
    return Choice("zero1", {}, {"dtype": compute_dtype(row)})


def _internevo(row: StepRow) -> Choice:
    """Gradients all-reduced over all ranks in buckets; owners broadcast in their group.

    With as many tensors as a group has ranks, or more, what a rank owns is broadcast at once.
    """
    if row.zero_stage == 3:  # noqa: PLR2004 - the ZeRO stage
        return _fsdp1(row)
    tensors = 7 * row.sizes.layers
    options: dict[str, Any] = {
        "bucket_cap_mb": float(_INTERNEVO_BUCKET * 2 / 2**20),
        "parameters_as_bucket_view": row.shard_group <= tensors,
    }
    if row.shard_group < row.n_gpus:
        options["process_group_size"] = row.shard_group
    return Choice("zero-redundancy", options, {"dtype": compute_dtype(row)})


def _one_bucket(row: StepRow) -> Choice:
    every = 4 * int(row.sizes.params)
    return Choice("ddp", {"bucket_cap_mb": every / 2**20}, {"dtype": compute_dtype(row)})


_INTERNEVO_BUCKET: Final = 512 * 2**20
"""Elements: reduce_bucket_size of InternLM/InternEvo configs/7B_sft.py."""
_BUCKET: Final = re.compile(r"bucket (\d+) MB")


def _ddp(row: StepRow) -> Choice:
    options: dict[str, Any] = {}
    bucket = _BUCKET.search(row.raw.text("sharding_raw") or "")
    if bucket is not None:
        options["bucket_cap_mb"] = float(bucket[1])
    dtype = compute_dtype(row)
    if dtype == "float32" or "apex" in row.framework.lower():
        return Choice("ddp", options, {"dtype": dtype})
    # torch's autocast: parameters and their gradients stay float32.
    return Choice(
        "ddp",
        options,
        {"dtype": dtype, "grad_dtype": "float32", "storage_dtype": "float32"},
    )


ENGINES: Final = (
    Engine(
        ("composer",), _composer, "Composer wraps FSDP1 with BACKWARD_POST, and never says no_sync"
    ),
    Engine(("yafsdp",), _yafsdp, "two buffers of gathered layers: one layer ahead, both ways"),
    Engine(("torchtitan fsdp1",), _fsdp1, "torchtitan before fully_shard"),
    Engine(("torchtitan", "fsdp2", "fully_shard"), _fsdp2, "torch's fully_shard"),
    Engine(("lit-gpt", "fabric"), _accumulating, "Fabric accumulates under no_sync"),
    Engine(
        ("internevo",),
        _internevo,
        "FSDP1; or buckets all-reduced, and owners broadcast (hybrid_zero_optim.py @00a2a34)",
    ),
    Engine(("llm.c",), _zero1, "gradients reduce-scattered by layer, parameters gathered after"),
    Engine(("megatron-lm",), _one_bucket, "its local DDP reduces once, after the backward"),
    Engine(("deepspeed",), _deepspeed, "DeepSpeed's engine of that stage"),
    Engine(("ddp",), _ddp, "torch's reducer"),
    Engine(("fsdp",), _fsdp1, "torch's FullyShardedDataParallel"),
)
