"""The settings of DeepSpeed ZeRO-3 that are observed."""

from __future__ import annotations

from typing import Any, Final

from zerosim_runtime.equality.deepspeed_cases import (
    FULL,
    NO_BIAS,
    RECOMPUTED,
    TWICE,
    P,
    case,
)
from zerosim_runtime.equality.small_models import GPT, ODD, UNIFORM

_SIX: Final = UNIFORM | {"layers": 6}
_SCATTERED: Final = {"contiguous_gradients": False}
_BF16: Final = "bfloat16"


def _knobs(
    prefetch: int | None = None, reuse: int | None = None, threshold: int | None = 0, **more: int
) -> dict[str, Any]:
    named = {
        "stage3_prefetch_bucket_size": prefetch,
        "stage3_max_reuse_distance": reuse,
        "stage3_param_persistence_threshold": threshold,
    }
    return {k: v for k, v in named.items() if v is not None} | more


CASES: Final = (
    case("default", 3, {}),
    case("default-sharded", 3, _knobs(), extra=NO_BIAS),
    case("on-demand", 3, _knobs(0, 0), extra=NO_BIAS),
    case("seed", 3, _knobs(0, 1, reduce_bucket_size=P), extra=NO_BIAS),
    case("seed-4", 3, _knobs(0, 1, reduce_bucket_size=P), extra=NO_BIAS, ranks=4),
    case("reuse", 3, _knobs(0, 1), extra=NO_BIAS),
    case("prefetch", 3, _knobs(P, 0), extra=NO_BIAS),
    case("prefetch-bucket", 3, _knobs(P, 0, reduce_bucket_size=P), extra=NO_BIAS),
    case("prefetch-2", 3, _knobs(2 * P, 0), extra=NO_BIAS),
    case("prefetch-reuse", 3, _knobs(P, 2 * P + 1), extra=NO_BIAS),
    case("prefetch-default-reuse", 3, _knobs(P), extra=NO_BIAS),
    case("six-max-live", 3, _knobs(P, 0, stage3_max_live_parameters=P), _SIX, extra=NO_BIAS),
    case("six-max-live-2", 3, _knobs(2 * P, 0, stage3_max_live_parameters=2 * P), _SIX),
    case("six-prefetch-2", 3, _knobs(2 * P, 1), _SIX, extra=NO_BIAS),
    case("six-reuse-2", 3, _knobs(0, 2 * P + 1), _SIX, extra=NO_BIAS),
    case("persistent-bias", 3, _knobs(0, 1, 100, reduce_bucket_size=P)),
    case("persistent-bias-prefetch", 3, _knobs(P, 0, 100)),
    case("persistent-bias-default", 3, _knobs(threshold=100)),
    case("persistent-cap", 3, _knobs(0, 1, 100, stage3_model_persistence_threshold=64)),
    case("twice", 3, _knobs(0, 1, reduce_bucket_size=P), UNIFORM | TWICE, extra=NO_BIAS),
    case("twice-prefetch", 3, _knobs(P, 0), UNIFORM | TWICE, extra=NO_BIAS),
    case("sub-groups", 3, _knobs(0, 1, sub_group_size=P), extra=NO_BIAS),
    case("whole", 3, _knobs(0, 1, reduce_bucket_size=P, reduce_scatter=False), extra=NO_BIAS),
    case("no-overlap", 3, _knobs(0, 1, reduce_bucket_size=P, overlap_comm=False), extra=NO_BIAS),
    case("large-tensors", 3, _knobs(0, 1, reduce_bucket_size=500)),
    case("odd-4", 3, _knobs(500, 0, reduce_bucket_size=900), ODD, ranks=4),
    case("bfloat16", 3, _knobs(P, 1, reduce_bucket_size=P), dtype="bfloat16"),
    case("gpt", 3, _knobs(0, 1, reduce_bucket_size=2000), GPT),
    case("gpt-default", 3, _knobs(), GPT),
    case("gpt-persistent", 3, _knobs(1000, 1, 20, reduce_bucket_size=1000), GPT),
    case("gpt-4", 3, _knobs(1500, 0, 100, reduce_bucket_size=1500), GPT, ranks=4),
    case("gpt-leaf", 3, _knobs(0, 1), GPT, extra={"leaves": ["Block"]}),
    case("gpt-leaf-prefetch", 3, _knobs(3000, 0), GPT, extra={"leaves": ["Block"]}),
    case("gpt-granularity", 3, _knobs(0, 1, stage3_module_granularity_threshold=100), GPT),
    *(
        case(
            *(f"{kind}{name}", 3, _knobs(prefetch, 1, reduce_bucket_size=P), UNIFORM | FULL),
            extra={"shape": RECOMPUTED | {"bias": False} | {"checkpointing": kind}},
        )
        for kind in ("reentrant", "non-reentrant")
        for name, prefetch in (("", 0), ("-prefetch", P))
    ),
    case("gpt-leaf-head", 3, _knobs(0, 1), GPT, extra={"leaves": ["Head"]}),
    case("gpt-leaves-reuse", 3, _knobs(100, 3300), GPT, extra={"leaves": ["Block"]}),
    case("gpt-tied", 3, _knobs(500, 1000, 20, reduce_bucket_size=1500), GPT | {"tied": True}),
    case("gpt-tight", 3, _knobs(700, 3000, stage3_max_live_parameters=2000), GPT | {"layers": 4}),
    case("gpt-thrice", 3, _knobs(1000, None, 100), GPT | {"micro_batches": 3}),
    case("gpt-sub-groups", 3, _knobs(0, 1, sub_group_size=100), GPT),
    case("gpt-one-by-one", 3, _knobs(1024, 0, stage3_allgather_sequential=True), GPT),
    case("gpt-fetch-reduced", 3, _knobs(900, 0, stage3_use_all_reduce_for_fetch_params=True), GPT),
    case("gpt-scattered-gradients", 3, _knobs(reduce_bucket_size=900, **_SCATTERED), GPT),
    case("gpt-whole", 3, _knobs(17, reduce_bucket_size=900, reduce_scatter=False), GPT),
    case("bias-first", 3, _knobs(0, 1, reduce_bucket_size=P, memory_efficient_linear=False)),
    case("gpt-bias-first", 3, _knobs(reduce_bucket_size=500, memory_efficient_linear=False), GPT),
    case(
        "float32-gradients",
        3,
        _knobs(0, 1, reduce_bucket_size=P),
        dtype=_BF16,
        grad_dtype="float32",
    ),
    case(
        "float32-reduction",
        3,
        _knobs(0, 1, reduce_bucket_size=P),
        dtype=_BF16,
        reduce_dtype="float32",
    ),
    case(
        *("gpt-reentrant-leaf", 3, _knobs(1024, 3300, 300), GPT | FULL),
        extra={"leaves": ["Block"], "shape": {"checkpointing": "reentrant"}},
    ),
    case(
        *("gpt-checkpointing", 3, _knobs(1000, 0), GPT | FULL),
        extra={"shape": {"checkpointing": "non-reentrant"}},
    ),
)
