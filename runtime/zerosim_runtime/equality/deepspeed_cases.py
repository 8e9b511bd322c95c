"""The settings of DeepSpeed ZeRO-1 and ZeRO-2 that are observed, and the models they run."""

from __future__ import annotations

from typing import Any, Final

from zerosim_runtime.equality.case import Case
from zerosim_runtime.equality.small_models import GPT, ODD, UNIFORM

ODD_GPT: Final = GPT | {"hidden": 10, "vocab": 37, "ffn": 23}
FULL: Final = {"checkpointing": "full"}
TWICE: Final = {"micro_batches": 2}
P: Final = 32 * 32
"""Elements of a uniform layer's weight."""
NO_BIAS: Final = {"shape": {"bias": False}}
RECOMPUTED: Final = {"input_grad": True}
"""Re-entrant checkpointing computes no gradients in a layer whose input has none."""


def case(
    name: str,
    stage: int,
    options: dict[str, Any],
    workload: dict[str, Any] = UNIFORM,
    *,
    ranks: int = 2,
    dtype: str = "float32",
    extra: dict[str, Any] | None = None,
    **numerics: str,
) -> Case:
    """A case named `z<stage>-<name>`; `extra` may hold `shape` and `leaves`."""
    scenario = {
        "workload": dict(workload),
        "schedule": {"name": f"deepspeed-{stage}", **options},
        "numerics": {"dtype": dtype, **numerics},
        "run": {"steps": 3},
    }
    return Case(f"z{stage}-{name}", "deepspeed", ranks, scenario, extra=extra or {})


_R: Final = {"reduce_bucket_size": P}
_OVERLAP: Final = _R | {"overlap_comm": True}
_SMALL: Final = {"reduce_bucket_size": 300}
_WHOLE: Final = {"reduce_scatter": False}
_SCATTERED: Final = {"contiguous_gradients": False}
_OWNERS: Final = {"use_multi_rank_bucket_allreduce": False}


def _both(stage: int) -> tuple[Case, ...]:
    return (
        case("default", stage, {}),
        case("bucket", stage, _R, extra=NO_BIAS),
        case("bucket-bias", stage, _R),
        case("overlap", stage, _OVERLAP, extra=NO_BIAS),
        case("overlap-twice", stage, _OVERLAP, UNIFORM | TWICE, extra=NO_BIAS),
        case("twice", stage, _R, UNIFORM | TWICE, extra=NO_BIAS),
        case("owners", stage, _OVERLAP | _OWNERS, extra=NO_BIAS),
        case("owners-round-robin", stage, _R | _OWNERS | {"round_robin_gradients": True}),
        case("whole", stage, _R | {"reduce_scatter": False}, extra=NO_BIAS),
        case("scattered-gradients", stage, _OVERLAP | {"contiguous_gradients": False}),
        case("gpt", stage, {"reduce_bucket_size": 2000, "overlap_comm": True}, GPT),
        case("gpt-large-tensors", stage, {"reduce_bucket_size": 300}, GPT),
        case("gpt-owners-4", stage, {"reduce_bucket_size": 300} | _OWNERS, GPT, ranks=4),
        case("odd-4", stage, {"reduce_bucket_size": 500, "overlap_comm": True}, ODD, ranks=4),
        case("bfloat16", stage, _R, dtype="bfloat16"),
        case("bfloat16-overlap-twice", stage, _OVERLAP, GPT | TWICE, dtype="bfloat16"),
    )


CASES: Final = (
    *_both(1),
    *_both(2),
    case("allgather-bucket", 2, {"allgather_bucket_size": 512}),
    case("no-norm", 2, {"compute_grad_norm": False}),
    case("aligned-4", 2, {"parameter_alignment": True}, ODD, ranks=4),
    case("round-robin-4", 2, _R | _OWNERS | {"round_robin_gradients": True}, GPT, ranks=4),
    *(
        case(
            kind, 2, _OVERLAP, UNIFORM | FULL, extra={"shape": RECOMPUTED | {"checkpointing": kind}}
        )
        for kind in ("reentrant", "non-reentrant")
    ),
    case("tied", 2, {"reduce_bucket_size": 900}, GPT | {"tied": True}),
    case(
        *("float32-gradients", 2, _R | {"overlap_comm": True}),
        dtype="bfloat16",
        grad_dtype="float32",
    ),
    case("float32-reduction", 2, _R, dtype="bfloat16", reduce_dtype="float32"),
    case(
        *("owners-float32-gradients", 2, {"reduce_bucket_size": 1500} | _OWNERS, GPT),
        dtype="bfloat16",
        grad_dtype="float32",
    ),
    # What the knobs come to together, on three and four ranks.
    case("odd-owners-3", 1, _OVERLAP | _OWNERS | _SMALL, ODD | TWICE, ranks=3),
    case("gpt-round-robin-3", 1, _OWNERS | _SMALL | {"round_robin_gradients": True}, GPT, ranks=3),
    case("gpt-scattered-3", 2, _OVERLAP | _SCATTERED | _OWNERS, GPT | TWICE, ranks=3),
    case("gpt-whole-3", 2, _OVERLAP | _SMALL | _WHOLE, GPT | TWICE, ranks=3),
    case("scattered-whole", 1, _SCATTERED | _WHOLE | _SMALL, GPT, ranks=3),
    case(
        *("aligned-owners-4", 2, _OWNERS | _SMALL | {"parameter_alignment": True}, ODD_GPT),
        ranks=4,
        dtype="bfloat16",
    ),
    case(
        *("float32-both-3", 2, _OVERLAP | {"communication_data_type": "fp32"}, GPT | TWICE),
        ranks=3,
        dtype="bfloat16",
        grad_dtype="float32",
    ),
    case("more-ranks-than-parameters-4", 2, _OWNERS, ODD | {"layers": 1}, ranks=4),
)
