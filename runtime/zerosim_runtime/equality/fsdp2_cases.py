"""The settings of FSDP2 that are compared: each on real ranks, and all kinds on 64 fake ones too."""

from __future__ import annotations

from typing import Any, Final

from zerosim_runtime.equality.case import Case

_FLOAT32: Final = {"dtype": "float32"}
_MIXED: Final = {"dtype": "bfloat16", "storage_dtype": "float32", "reduce_dtype": "float32"}
_UNIFORM: Final = {"layers": 4, "hidden": 16, "micro_batch": 2}
_GPT: Final = {
    "model": "gpt",
    "layers": 2,
    "hidden": 16,
    "heads": 2,
    "vocab": 40,
    "seq": 8,
    "micro_batch": 1,
    "tied": True,
}
_LLAMA: Final = _GPT | {"model": "llama", "kv_heads": 1, "ffn": 40, "tied": False}
_WIDE: Final = {
    "model": "gpt",
    "layers": 3,
    "hidden": 768,
    "heads": 12,
    "vocab": 50257,
    "seq": 128,
    "micro_batch": 1,
}
_FAKE_RANKS: Final = 64


def _case(
    name: str,
    world_size: int,
    workload: dict[str, Any],
    numerics: dict[str, Any] = _FLOAT32,
    *,
    reduced: bool = False,
    extra: dict[str, Any] | None = None,
    **options: Any,  # noqa: ANN401 - the schedule's own options
) -> Case:
    scenario = {
        "workload": workload,
        "schedule": {"name": "fsdp2"} | options,
        "numerics": numerics,
        "run": {"steps": 2},
    }
    return Case(
        name,
        "fsdp2",
        world_size,
        scenario,
        fake=world_size == _FAKE_RANKS,
        extra=extra or {},
        reduced=reduced,
    )


def _gathering(ranks: int) -> tuple[Case, ...]:
    """What is gathered when, on so many ranks."""
    at, few = f"-{ranks}", ranks // 2
    return (
        _case(f"default{at}", ranks, _UNIFORM, reduced=True),
        _case(f"resharded{at}", ranks, _GPT, reshard_after_forward=True),
        _case(f"not-resharded{at}", ranks, _GPT, reshard_after_forward=False),
        _case(f"resharded-to-fewer{at}", ranks, _GPT, reshard_after_forward=few),
        _case(f"resharded-to-one{at}", ranks, _UNIFORM, reshard_after_forward=1),
        _case(f"last-layer-kept{at}", ranks, _UNIFORM, keep_last_layer=True),
        _case(f"only-the-root{at}", ranks, _UNIFORM, wrap="root"),
        _case(f"only-the-root-gpt{at}", ranks, _GPT, wrap="root", reshard_after_forward=True),
        _case(f"forward-prefetch-1{at}", ranks, _UNIFORM, set_modules_to_forward_prefetch=1),
        _case(f"backward-prefetch-1{at}", ranks, _GPT, set_modules_to_backward_prefetch=1),
        _case(
            f"prefetch-2{at}",
            ranks,
            _UNIFORM | {"layers": 5},
            set_modules_to_forward_prefetch=2,
            set_modules_to_backward_prefetch=2,
            reduced=True,
        ),
        _case(f"checkpointed{at}", ranks, _GPT | {"checkpointing": "full"}),
        # checkpoint(fully_shard(block)) instead of fully_shard(checkpoint(block)): the same.
        _case(
            f"checkpointed-outside{at}",
            ranks,
            _GPT | {"checkpointing": "full"},
            extra={"outside": True},
        ),
        _case(f"uneven-rows{at}", ranks, _UNIFORM | {"hidden": ranks + 1}),
        _case(f"empty-ranks{at}", ranks, _UNIFORM | {"hidden": ranks - 1}),
    )


def _reducing(ranks: int) -> tuple[Case, ...]:
    """What is reduced when and over whom, on so many ranks."""
    at, few = f"-{ranks}", ranks // 2
    micro = _UNIFORM | {"micro_batches": 2}
    gpt_micro = _GPT | {"micro_batches": 3}
    return (
        _case(f"every-micro-batch{at}", ranks, micro),
        _case(f"last-micro-batch{at}", ranks, gpt_micro, set_requires_gradient_sync=False),
        _case(
            f"last-micro-batch-not-resharded{at}",
            ranks,
            gpt_micro,
            set_requires_gradient_sync=False,
            set_reshard_after_backward=False,
        ),
        _case(
            f"all-kept{at}",
            ranks,
            micro,
            reshard_after_forward=False,
            set_reshard_after_backward=False,
        ),
        _case(f"mixed-precision{at}", ranks, _LLAMA, _MIXED),
        _case(
            f"mixed-precision-accumulated{at}",
            ranks,
            _LLAMA | {"micro_batches": 2},
            _MIXED,
            set_requires_gradient_sync=False,
        ),
        _case(f"bfloat16{at}", ranks, _GPT, {"dtype": "bfloat16"}),
        _case(f"replicated{at}", ranks, _GPT, shard_mesh_size=few),
        _case(
            f"replicated-mixed{at}",
            ranks,
            _LLAMA,
            _MIXED,
            shard_mesh_size=few,
            reshard_after_forward=True,
        ),
        _case(
            f"replicated-without-all-reduce{at}",
            ranks,
            micro,
            shard_mesh_size=few,
            set_requires_all_reduce=False,
            reduced=True,
        ),
        _case(
            f"two-communicators{at}",
            ranks,
            _GPT,
            set_separate_reduce_scatter_group=True,
            set_reduce_scatter_max_input_buffers=2,
        ),
    )


CASES: Final[tuple[Case, ...]] = (
    _case("default-2", 2, _UNIFORM),
    _case("gpt-2", 2, _GPT),
    _case("llama-3", 3, _LLAMA),
    _case("mixed-precision-3", 3, _GPT, _MIXED),
    *_gathering(4),
    *_reducing(4),
    *_gathering(_FAKE_RANKS),
    *_reducing(_FAKE_RANKS),
    _case("wide-64", _FAKE_RANKS, _WIDE, _MIXED),
    _case("wide-replicated-64", _FAKE_RANKS, _WIDE, _MIXED, shard_mesh_size=8),
)
