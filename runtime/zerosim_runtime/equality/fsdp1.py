"""torch's FullyShardedDataParallel (FSDP1) beside the `fsdp1` schedule."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any, Final

import torch
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import (
    BackwardPrefetch,
    FullyShardedDataParallel,
    MixedPrecision,
    ShardingStrategy,
)

from zerosim.scenario import Scenario, numerics_of, workload_of
from zerosim.schedules.fsdp1 import Fsdp1Options
from zerosim_runtime.equality.case import Case, scenario_of
from zerosim_runtime.equality.marked import batches, marked_model
from zerosim_runtime.equality.seen import Seen
from zerosim_runtime.equality.watch import Record, watching
from zerosim_runtime.rank import dtype_of

NEEDS: Final = ("torch",)


def observe(case: Case, rank: int) -> list[Seen]:
    """Train the case's model under FSDP1 and return what this rank was seen to do."""
    scenario, record = scenario_of(case), Record()
    options = Fsdp1Options(**scenario.schedule.options)
    engine = wrapped(scenario, options, record)
    optimizer = torch.optim.SGD(engine.parameters(), lr=0.1)
    last = scenario.workload.micro_batches - 1
    with watching(record):
        for batch in batches(scenario, record, rank):
            alone = options.no_sync and record.micro_batch < last
            with engine.no_sync() if alone else nullcontext():
                engine(batch).backward()
            if record.micro_batch == last:
                optimizer.step()
                optimizer.zero_grad()
    return record.seen


def wrapped(scenario: Scenario, options: Fsdp1Options, record: Record) -> FullyShardedDataParallel:
    """The model with every layer wrapped that has a unit of its own, and the whole around them."""
    workload, numerics = workload_of(scenario), numerics_of(scenario)
    model = marked_model(scenario, record).to(dtype_of(numerics.storage_dtype))
    arguments: dict[str, Any] = {
        "sharding_strategy": ShardingStrategy[options.sharding_strategy],
        "backward_prefetch": BackwardPrefetch.__members__.get(options.backward_prefetch),
        "forward_prefetch": options.forward_prefetch,
        "limit_all_gathers": options.limit_all_gathers,
        "use_orig_params": options.use_orig_params,
        "mixed_precision": MixedPrecision(
            param_dtype=dtype_of(numerics.dtype), reduce_dtype=dtype_of(numerics.reduce_dtype)
        ),
        "device_id": torch.device("cpu"),
    }
    if options.shard_mesh_size is not None:
        n_ranks = torch.distributed.get_world_size()
        shape = (n_ranks // options.shard_mesh_size, options.shard_mesh_size)
        arguments["device_mesh"] = init_device_mesh("cpu", shape)
    for i, layer in enumerate(workload.layers):
        if layer.recompute_flops:
            model.layers[i] = checkpoint_wrapper(model.layers[i])
        if options.wrap == "layers" and workload.units[layer.unit].name != "root":
            model.layers[i] = FullyShardedDataParallel(model.layers[i], **arguments)
    return FullyShardedDataParallel(model, **arguments)


_UNIFORM: Final = {"layers": 3, "hidden": 16, "micro_batch": 2}
_GPT: Final = {
    "model": "gpt",
    "layers": 3,
    "hidden": 10,
    "heads": 2,
    "vocab": 37,
    "seq": 5,
    "micro_batch": 2,
}
_LLAMA: Final = _GPT | {"model": "llama", "layers": 4, "hidden": 12, "ffn": 22, "kv_heads": 1}
_BFLOAT16: Final = {"dtype": "bfloat16", "storage_dtype": "float32"}


def _case(
    name: str,
    n_ranks: int,
    workload: dict[str, Any],
    numerics: dict[str, Any] | None = None,
    *,
    steps: int = 2,
    fake: bool = False,
    reduced: bool = False,
    **options: Any,  # noqa: ANN401 - knobs, by name
) -> Case:
    scenario = {
        "workload": workload,
        "schedule": {"name": "fsdp1", **options},
        "numerics": numerics or {"dtype": "float32"},
        "run": {"steps": steps},
    }
    return Case(name, "fsdp1", n_ranks, scenario, fake=fake, reduced=reduced)


CASES: Final[tuple[Case, ...]] = (
    _case("defaults", 2, _UNIFORM),
    _case("root", 2, _GPT, reduced=True),
    _case("only-root", 3, _GPT, wrap="root", use_orig_params=True, no_sync=True),
    _case("one-layer", 2, _UNIFORM | {"layers": 1}),
    _case("no-prefetch", 2, _GPT, backward_prefetch="NO_PREFETCH", reduced=True),
    _case("backward-post", 2, _GPT, backward_prefetch="BACKWARD_POST", reduced=True),
    _case("forward-prefetch", 2, _UNIFORM, steps=3, forward_prefetch=True),
    _case("forward-prefetch-root", 2, _GPT, steps=3, forward_prefetch=True, reduced=True),
    _case(
        "both-prefetches",
        2,
        _LLAMA,
        steps=3,
        forward_prefetch=True,
        backward_prefetch="BACKWARD_POST",
    ),
    _case("shard-grad-op", 2, _GPT, sharding_strategy="SHARD_GRAD_OP", reduced=True),
    _case(
        "shard-grad-op-prefetch",
        2,
        _LLAMA,
        steps=3,
        sharding_strategy="SHARD_GRAD_OP",
        forward_prefetch=True,
    ),
    _case("no-shard", 2, _GPT, sharding_strategy="NO_SHARD"),
    _case("no-limit", 2, _LLAMA, limit_all_gathers=False),
    _case("accumulate", 2, _GPT | {"micro_batches": 2}),
    _case("no-sync", 2, _GPT | {"micro_batches": 3}, no_sync=True, reduced=True),
    _case(
        "no-sync-forward-prefetch",
        2,
        _UNIFORM | {"micro_batches": 2},
        no_sync=True,
        forward_prefetch=True,
    ),
    _case(
        "no-sync-shard-grad-op",
        2,
        _GPT | {"micro_batches": 3},
        no_sync=True,
        sharding_strategy="SHARD_GRAD_OP",
    ),
    _case(
        "no-sync-no-shard",
        2,
        _GPT | {"micro_batches": 2},
        _BFLOAT16 | {"reduce_dtype": "float32"},
        no_sync=True,
        sharding_strategy="NO_SHARD",
    ),
    _case("bfloat16", 2, _LLAMA, {"dtype": "bfloat16"}),
    _case("mixed", 2, _GPT, _BFLOAT16, reduced=True),
    _case("mixed-float32-reduce", 2, _GPT, _BFLOAT16 | {"reduce_dtype": "float32"}),
    _case("mixed-original", 3, _GPT, _BFLOAT16, use_orig_params=True),
    _case("checkpointing", 2, _GPT | {"checkpointing": "full"}),
    _case("checkpointing-uniform", 2, _UNIFORM | {"checkpointing": "full"}, forward_prefetch=True),
    _case("padding", 3, _GPT),
    _case("original", 3, _LLAMA, use_orig_params=True),
    _case("small-units", 3, _UNIFORM | {"hidden": 1}),
    _case("hybrid", 4, _GPT, sharding_strategy="HYBRID_SHARD", shard_mesh_size=2),
    _case(
        "hybrid-zero2",
        4,
        _GPT | {"micro_batches": 2},
        sharding_strategy="_HYBRID_SHARD_ZERO2",
        shard_mesh_size=2,
        no_sync=True,
    ),
    _case(
        "hybrid-one-node",
        4,
        _UNIFORM,
        _BFLOAT16,
        sharding_strategy="HYBRID_SHARD",
        shard_mesh_size=4,
    ),
    _case("four-ranks", 4, _LLAMA, forward_prefetch=True),
    _case("64-ranks", 64, _GPT, fake=True, forward_prefetch=True, reduced=True),
    _case("64-ranks-original", 64, _LLAMA, _BFLOAT16, fake=True, use_orig_params=True),
    _case(
        "64-ranks-hybrid",
        64,
        _GPT | {"micro_batches": 2},
        fake=True,
        sharding_strategy="HYBRID_SHARD",
        shard_mesh_size=8,
        no_sync=True,
    ),
)
