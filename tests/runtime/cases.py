"""The scenarios that real ranks are tested with: small, uneven, in every schedule."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

UNIFORM = {"model": "uniform", "layers": 3, "hidden": 21, "micro_batch": 4}
GPT = {
    "model": "gpt",
    "layers": 2,
    "hidden": 18,
    "heads": 3,
    "vocab": 37,
    "seq": 5,
    "micro_batch": 2,
    "tied": True,
}
LLAMA = GPT | {"model": "llama", "heads": 6, "kv_heads": 3, "tied": False, "vocab": 31}
FEW = 6  # steps, where twenty would show no more
SCHEDULES: dict[str, dict[str, Any]] = {
    "ddp": {"name": "ddp"},
    "zero1": {"name": "zero1"},
    "zero2": {"name": "zero2"},
    "zero3": {"name": "zero3"},
    "zero3-wide": {
        "name": "zero3",
        "keep_last": False,
        "prefetch": 1,
        "bucket_bytes": 3000,
        "communicators": 2,
    },
    "ddp-buckets": {"name": "ddp", "bucket_bytes": 3000},
    "ddp-cap": {"name": "ddp", "bucket_cap_mb": 0.003},
    "ddp-views": {"name": "ddp", "bucket_cap_mb": 0.003, "gradient_as_bucket_view": True},
    "ddp-unused": {"name": "ddp", "bucket_cap_mb": 0.003, "find_unused_parameters": True},
    "ddp-static": {"name": "ddp", "bucket_cap_mb": 0.003, "static_graph": True, "no_sync": False},
    "zero1-buckets": {"name": "zero1", "bucket_bytes": 3000},
    "zero2-buckets": {"name": "zero2", "bucket_bytes": 3000},
}
EACH: dict[str, dict[str, Any]] = {
    "ddp-views-each": {
        "name": "ddp",
        "bucket_cap_mb": 0.003,
        "gradient_as_bucket_view": True,
        "no_sync": False,
    },
    "ddp-each": {"name": "ddp", "bucket_cap_mb": 0.003, "no_sync": False},
}
"""Every micro-batch reduces."""


@dataclass(frozen=True, slots=True)
class Case:
    """One training that ranks do; `bug` names what is planted in it (None: nothing)."""

    name: str
    scenario: dict[str, Any]
    lr: float = 1e-2
    bug: str | None = None


def case(
    schedule: str,
    workload: dict[str, Any],
    n_ranks: int,
    *,
    dtype: str = "float32",
    optimizer: str = "adamw",
    micro_batches: int = 1,
    steps: int = 20,
    bug: str | None = None,
) -> Case:
    name = f"{schedule}-{workload['model']}-{dtype}-{optimizer}-{micro_batches}-{bug or 'right'}"
    scenario = {
        "name": name,
        "workload": workload | {"micro_batches": micro_batches},
        "schedule": (SCHEDULES | EACH)[schedule],
        "cluster": {"name": "cpu-gloo", "world_size": n_ranks},
        "numerics": {"dtype": dtype, "optimizer": optimizer},
        "run": {"steps": steps, "seed": 7, "ledger": True},
    }
    return Case(name, scenario, bug=bug)


def bitwise_cases(n_ranks: int) -> list[Case]:
    """float32 and AdamW: sums of two numbers have one order, so that equal means equal bits."""
    plain, cut = ("ddp", "zero1", "zero2", "zero3"), list(SCHEDULES)[4:]
    every = [case(schedule, UNIFORM, n_ranks) for schedule in plain]
    every += [case(schedule, UNIFORM, n_ranks, steps=FEW) for schedule in cut]
    every += [case(schedule, GPT, n_ranks, steps=FEW) for schedule in plain]
    every += [case("zero3-wide", LLAMA, n_ranks, steps=FEW)]
    for schedule in ("zero1", "ddp-cap", "ddp-views"):
        every += [case(schedule, UNIFORM, n_ranks, micro_batches=2, steps=FEW)]
    every += [case("ddp-views", GPT, n_ranks, steps=FEW)]
    return every


def close_cases(n_ranks: int) -> list[Case]:
    """float64: from three ranks on sums differ in their last bits, and Adam must not hide a bug."""
    return [
        case(schedule, UNIFORM, n_ranks, dtype="float64", optimizer=optimizer)
        for schedule in ("ddp", "zero1", "zero2", "zero3")
        for optimizer in ("adamw", "sgd")
    ]


def odd_cases(n_ranks: int) -> list[Case]:
    """Accumulation, tied and shared weights, momentum, bfloat16 with float32 masters."""
    return [
        case("zero2", UNIFORM, n_ranks, dtype="float64", micro_batches=2, steps=FEW),
        case(
            "zero3-wide",
            GPT,
            n_ranks,
            dtype="float64",
            optimizer="momentum",
            micro_batches=2,
            steps=FEW,
        ),
        case("zero3", GPT, n_ranks, dtype="bfloat16", steps=FEW),
        *(
            case(schedule, UNIFORM, n_ranks, dtype="float64", micro_batches=2, steps=FEW)
            for schedule in EACH
        ),
    ]


BUGS = {"missing_mean": "zero2", "stale_shard": "zero3", "row_order": "zero3"}


def buggy_cases(n_ranks: int) -> list[Case]:
    """The planted bugs, in float64."""
    return [
        case(schedule, UNIFORM, n_ranks, dtype="float64", bug=bug, steps=FEW)
        for bug, schedule in BUGS.items()
    ]


def ordered_cases(n_ranks: int) -> list[Case]:
    """A model whose memory is to be compared between schedules."""
    return [case(s, GPT, n_ranks, steps=2) for s in ("ddp", "zero1", "zero2", "zero3")]


def cases_of(n_ranks: int) -> list[Case]:
    """What each world size trains."""
    return {
        1: [case(schedule, UNIFORM, 1) for schedule in ("ddp", "zero1", "zero2", "zero3")]
        + [case("zero3", GPT, 1)],
        2: bitwise_cases(2) + odd_cases(2),
        3: close_cases(3) + buggy_cases(3) + ordered_cases(3),
        4: close_cases(4),
    }[n_ranks]
