"""The settings of ColossalAI's low-level ZeRO that are observed, and the models they run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from zerosim_runtime.equality.case import Case
from zerosim_runtime.equality.small_models import GPT, LLAMA, ODD, UNIFORM

TWICE: Final = UNIFORM | {"micro_batches": 2}
LAYER: Final = 32 * 32 + 32
"""Elements of a uniform layer."""
EARLY: Final = {"overlap_communication": True}
EACH: Final = EARLY | {"reduce_bucket_size": LAYER}


def case(
    name: str,
    stage: int,
    options: dict[str, Any],
    workload: dict[str, Any] = UNIFORM,
    *,
    ranks: int = 2,
    dtype: str = "float32",
) -> Case:
    """A case named `c<stage>-<name>`."""
    return Case(
        f"c{stage}-{name}",
        "colossalai",
        ranks,
        {
            "workload": workload,
            "schedule": {"name": f"colossalai-{stage}", **options},
            "numerics": {"dtype": dtype},
            "run": {"steps": 2},
        },
    )


def both(name: str, options: dict[str, Any], *more: Any, **named: Any) -> list[Case]:  # noqa: ANN401 - case's own
    """The same setting at either ZeRO stage."""
    return [case(name, stage, options, *more, **named) for stage in (1, 2)]


CASES: Final = (
    *both("default", {}),
    *both("overlap", EARLY),
    *both("bucket", EACH),
    *both("bucket-after", {"reduce_bucket_size": LAYER}),
    *both("bucket-weight", EARLY | {"reduce_bucket_size": 32 * 32}),
    *both("bucket-small", EARLY | {"reduce_bucket_size": 100}),
    *both("plugin", EARLY | {"reduce_bucket_size_in_m": 12}),
    *both("odd-4", EACH, ODD, ranks=4),
    # 441 + 21 elements a layer fill up with padding to 444 + 24, which count when the next arrives.
    *both("odd-4-padding-fills", EARLY | {"reduce_bucket_size": 2 * 468 - 4}, ODD, ranks=4),
    *both("twice", EACH, TWICE),
    *both("allgather", EACH | {"overlap_allgather": True}),
    *both("gpt", EARLY | {"reduce_bucket_size": 1500}, GPT),
    *both("gpt-3", EARLY | {"reduce_bucket_size": 700}, GPT, ranks=3),
    *both("gpt-tied", EARLY | {"reduce_bucket_size": 700}, GPT | {"tied": True}),
    *both("llama", EARLY | {"reduce_bucket_size": 1500}, LLAMA),
    *both("bfloat16", EACH, dtype="bfloat16"),
    *both("drop", EACH | {"drop_layers": "1"}),
    *both("full", EACH, UNIFORM | {"checkpointing": "full"}),
    case("no-sync", 1, {"no_sync": True}, TWICE),
    case("no-sync-bucket", 1, EACH | {"no_sync": True}, TWICE),
)


def old(name: str, options: dict[str, Any], *more: Any, **named: Any) -> list[Case]:  # noqa: ANN401 - case's own
    """The same setting before the even split, at either ZeRO stage."""
    return [
        replace(
            made,
            name=f"old-{made.name}",
            family="colossalai-old",
            scenario=made.scenario
            | {"schedule": made.scenario["schedule"] | {"name": f"colossalai-{stage}-old"}},
        )
        for stage, made in zip((1, 2), both(name, options, *more, **named), strict=True)
    ]


OLD_CASES: Final = (
    *old("default", {}),
    *old("overlap", EARLY),
    *old("bucket", EACH),
    *old("bucket-after", {"reduce_bucket_size": LAYER}),
    *old("bucket-small", EARLY | {"reduce_bucket_size": 100}),
    *old("plugin", EARLY | {"reduce_bucket_size_in_m": 12}),
    *old("odd-4", EACH, ODD, ranks=4),
    *old("twice", EACH, TWICE),
    *old("gpt", EARLY | {"reduce_bucket_size": 1500}, GPT),
    *old("gpt-3", EARLY | {"reduce_bucket_size": 700}, GPT, ranks=3),
    *old("llama", EARLY | {"reduce_bucket_size": 1500}, LLAMA),
    *old("bfloat16", EACH, dtype="bfloat16"),
)
