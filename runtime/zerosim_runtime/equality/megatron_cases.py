"""The settings of Megatron-LM's distributed optimizer that are observed, and the models they run."""

from __future__ import annotations

from typing import Any, Final

from zerosim_runtime.equality.case import Case
from zerosim_runtime.equality.colossalai_cases import LAYER, TWICE
from zerosim_runtime.equality.small_models import GPT, LLAMA, ODD, UNIFORM

EARLY: Final = {"overlap_grad_reduce": True, "bucket_size": LAYER}
BOTH: Final = EARLY | {"overlap_param_gather": True}


def case(
    name: str,
    options: dict[str, Any],
    workload: dict[str, Any] = UNIFORM,
    *,
    ranks: int = 2,
    dtype: str = "bfloat16",
) -> Case:
    """A case of three steps; the first forward of one that gathers ahead gathers nothing."""
    return Case(
        f"megatron-{name}",
        "megatron",
        ranks,
        {
            "workload": workload,
            "schedule": {"name": "megatron", **options},
            "numerics": {"dtype": dtype},
            "run": {"steps": 3},
        },
    )


CASES: Final = (
    case("default", {}),
    case("early", {"overlap_grad_reduce": True}),
    case("bucket", EARLY),
    case("bucket-weight", EARLY | {"bucket_size": 32 * 32}),
    case("bucket-small", EARLY | {"bucket_size": 1}),
    case("bucket-two-layers", EARLY | {"bucket_size": LAYER + 1}),
    case("ahead", BOTH),
    case("ahead-small", BOTH | {"bucket_size": 1}),
    case("ahead-one-bucket", BOTH | {"bucket_size": None}),
    case("ahead-twice", BOTH, TWICE),
    case("twice", EARLY, TWICE),
    case("odd-3", BOTH, ODD, ranks=3),
    case("odd-4", BOTH | {"bucket_size": 400}, ODD, ranks=4),
    case("high-busbw", BOTH | {"pad_buckets_for_high_nccl_busbw": True}),
    case("16-bit-gradients", EARLY | {"grad_reduce_in_fp32": False}),
    case("float32", EARLY, dtype="float32"),
    case("float16", EARLY, dtype="float16"),
    case("gpt", EARLY | {"bucket_size": 1500}, GPT),
    case("gpt-4", EARLY | {"bucket_size": 700}, GPT, ranks=4),
    case("llama", EARLY | {"bucket_size": 1500}, LLAMA),
    case("gpt-ahead", BOTH | {"bucket_size": 1500}, GPT),
    case("gpt-tied", EARLY | {"bucket_size": 1500}, GPT | {"tied": True}),
    case("full", BOTH, UNIFORM | {"checkpointing": "full"}),
)
