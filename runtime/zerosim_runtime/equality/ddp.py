"""torch's DistributedDataParallel beside the `ddp` schedule."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, Final

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from zerosim.scenario import workload_of
from zerosim.schedules.ddp import DdpOptions
from zerosim_runtime.equality.case import Case, scenario_of
from zerosim_runtime.equality.marked import batches, marked_model
from zerosim_runtime.equality.seen import Seen
from zerosim_runtime.equality.watch import Record, watching

NEEDS: Final = ("torch",)
_MB: Final = 2**20


def observe(case: Case, rank: int) -> list[Seen]:
    """Train the case's model under DDP and return what this rank was seen to do."""
    options = DdpOptions(**scenario_of(case).schedule.options)
    return trained(case, rank, options, lambda _: None)


def trained(
    case: Case, rank: int, options: DdpOptions, optimizer_of: Callable[[nn.Module], Any]
) -> list[Seen]:
    """The same with an optimizer of one's own (None: no step is taken)."""
    scenario, record, now = scenario_of(case), Record(), Record()
    model = marked_model(scenario, record)

    def begin(*_: object) -> None:
        # DDP makes buckets anew before it calls the model: that still belongs to the step before.
        record.step, record.micro_batch = now.step, now.micro_batch

    model.register_forward_pre_hook(begin)
    engine = DistributedDataParallel(model, **arguments(options))
    if case.fake:
        engine.register_comm_hook(None, _hand_back)
    optimizer = optimizer_of(engine)
    last = workload_of(scenario).micro_batches - 1
    with watching(record):
        for batch in batches(scenario, now, rank):
            syncs = now.micro_batch == last or not options.no_sync
            with nullcontext() if syncs else engine.no_sync():
                torch.autograd.backward(engine(batch))
            if now.micro_batch == last:
                if optimizer is not None:
                    optimizer.step()
                engine.zero_grad()
    return record.seen


def arguments(options: DdpOptions) -> dict[str, Any]:
    """The arguments of DistributedDataParallel that these options stand for."""
    caps = list(options.caps_mb) or None
    if options.bucket_bytes is not None:
        caps = [options.bucket_bytes / _MB]
    return {
        "bucket_cap_mb": options.bucket_cap_mb,
        "bucket_cap_mb_list": caps,
        "find_unused_parameters": options.find_unused_parameters,
        "static_graph": options.static_graph,
        "gradient_as_bucket_view": options.gradient_as_bucket_view,
    }


_Bucket: Any = getattr(dist, "GradBucket")  # noqa: B009 - torch exports it without a name for types


def _hand_back(_: object, bucket: Any) -> torch.futures.Future[torch.Tensor]:  # noqa: ANN401 - same
    """All-reduce a bucket where the backend has no results: torch's fake one leaves its future empty."""
    buffer = bucket.buffer()
    dist.all_reduce(buffer)
    future: torch.futures.Future[torch.Tensor] = torch.futures.Future()
    future.set_result(buffer)
    return future


# torch looks at the annotations themselves, and this module's are text.
_hand_back.__annotations__ |= {
    "bucket": _Bucket,
    "return": torch.futures.Future[torch.Tensor],
}
_UNIFORM: Final = {"layers": 3, "hidden": 16, "micro_batch": 2}
_MIB_LAYERS: Final = {"hidden": 512, "micro_batch": 1}
_GPT: Final = {
    "model": "gpt",
    "layers": 2,
    "hidden": 16,
    "heads": 2,
    "vocab": 32,
    "seq": 4,
    "micro_batch": 2,
}
_LLAMA: Final = _GPT | {"model": "llama", "heads": 4, "kv_heads": 2}
_TENTH: Final = {"bucket_cap_mb": 0.01}


def _case(
    name: str,
    ranks: int,
    workload: dict[str, Any],
    options: dict[str, Any],
    *,
    dtype: str = "float32",
    fake: bool = False,
    reduced: bool = False,
) -> Case:
    scenario = {
        "workload": workload,
        "schedule": {"name": "ddp"} | options,
        "numerics": {"dtype": dtype},
        "run": {"steps": 4},
    }
    return Case(name, "ddp", ranks, scenario, fake=fake, reduced=reduced)


CASES: Final[tuple[Case, ...]] = (
    _case("default-3", 2, _MIB_LAYERS | {"layers": 3}, {}, reduced=True),
    _case("default-30", 2, _MIB_LAYERS | {"layers": 30}, {}),
    _case("find-unused-30", 2, _MIB_LAYERS | {"layers": 30}, {"find_unused_parameters": True}),
    _case("static-graph-30", 2, _MIB_LAYERS | {"layers": 30}, {"static_graph": True}),
    _case("cap", 3, _UNIFORM, {"bucket_cap_mb": 0.001}),
    _case("cap-0", 2, _UNIFORM, {"bucket_cap_mb": 0.0}),
    _case("cap-list", 2, _UNIFORM, {"bucket_cap_mb_list": "0.0001,0.0015"}, reduced=True),
    _case("cap-bytes", 2, _UNIFORM, {"bucket_bytes": 1089}, reduced=True),
    _case("views", 2, _UNIFORM, _TENTH | {"gradient_as_bucket_view": True}),
    _case("no-sync", 2, _UNIFORM | {"micro_batches": 3}, {"bucket_cap_mb": 0.001}, reduced=True),
    _case(
        "every-micro-batch-reduces",
        2,
        _UNIFORM | {"micro_batches": 3},
        {"bucket_cap_mb": 0.001, "no_sync": False},
    ),
    _case(
        "static-graph-micro-batches",
        2,
        _UNIFORM | {"micro_batches": 3},
        {"bucket_cap_mb": 0.001, "no_sync": False, "static_graph": True},
        reduced=True,
    ),
    _case(
        "find-unused-no-sync",
        3,
        _UNIFORM | {"micro_batches": 2},
        {"bucket_cap_mb": 0.001, "find_unused_parameters": True},
        reduced=True,
    ),
    _case("checkpointing", 2, _UNIFORM | {"checkpointing": "full"}, {"bucket_cap_mb": 0.001}),
    _case("gpt", 4, _GPT, _TENTH, reduced=True),
    _case("gpt-tied", 2, _GPT | {"tied": True}, _TENTH),
    _case("gpt-find-unused", 2, _GPT, _TENTH | {"find_unused_parameters": True}),
    _case("gpt-tied-list", 2, _GPT | {"tied": True}, {"bucket_cap_mb_list": "0.001"}),
    _case("llama-bfloat16", 4, _LLAMA, {"bucket_cap_mb": 0.002}, dtype="bfloat16"),
    _case("llama-tied", 3, _LLAMA | {"tied": True}, {"bucket_cap_mb": 0.001}),
    _case("fake-default-12", 64, _MIB_LAYERS | {"layers": 12}, {}, fake=True),
    _case("fake-gpt", 64, _GPT, _TENTH, fake=True, reduced=True),
    _case("fake-llama", 64, _LLAMA | {"micro_batches": 2}, _TENTH, fake=True),
    _case("fake-find-unused", 64, _GPT, _TENTH | {"find_unused_parameters": True}, fake=True),
)
