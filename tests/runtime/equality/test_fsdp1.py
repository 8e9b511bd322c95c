"""The real FSDP1 waits where the plan waits, and allocates what the plan allocates."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import BackwardPrefetch, FullyShardedDataParallel, ShardingStrategy
from torch.distributed.fsdp._limiter_utils import _FreeEventQueue
from torch.testing._internal.distributed.fake_pg import FakeStore

from zerosim.kinds import Kind
from zerosim.numerics import Numerics
from zerosim.plan import Plan
from zerosim.scenario import plan_of
from zerosim.schedules.fsdp1 import Fsdp1Options
from zerosim.schedules.fsdp1 import fsdp1 as fsdp1_plan
from zerosim.workload import Layer, Parameter, Unit, Workload
from zerosim_runtime.equality import fsdp1
from zerosim_runtime.equality.case import Case, scenario_of
from zerosim_runtime.equality.marked import batches
from zerosim_runtime.equality.seen import Seen, compared, planned
from zerosim_runtime.equality.watch import Record, mark, watching

HIDDEN = 512
LAYER_BYTES = (HIDDEN * HIDDEN + HIDDEN) * 4
LAYERS = {"layers": 4, "hidden": HIDDEN, "micro_batch": 1}
GPT = {"model": "gpt", "layers": 3, "hidden": 256, "heads": 2, "vocab": 5000, "seq": 1}
MIXED = {"dtype": "bfloat16", "storage_dtype": "float32"}


@contextmanager
def fake_ranks(n_ranks: int) -> Iterator[None]:
    """This process as the first of so many; collectives return at once and allocate nothing."""
    dist.init_process_group("fake", rank=0, world_size=n_ranks, store=FakeStore())
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # NO_SHARD is deprecated
            yield
    finally:
        dist.destroy_process_group()


def waits_of(plan: Plan) -> list[tuple[int, int, int]]:
    """(step, micro-batch, which free it waits for, counted from the first) of each host wait."""
    frees: dict[int, int] = {}
    found = []
    for op in plan.ops:
        if any(key.startswith("gathered.") for key in op.frees):
            frees[op.id] = len(frees)
        if op.kind is Kind.WAIT:
            found.append((op.step, op.micro_batch, frees[op.after[0]]))
    return found


@pytest.mark.runtime
@pytest.mark.parametrize("case", fsdp1.CASES, ids=lambda case: case.name)
def test_the_rate_limiter_waits_for_the_same_frees(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    frees: list[object] = []
    waits: list[tuple[int, int, int]] = []
    record = Record()
    add, take = _FreeEventQueue.enqueue, _FreeEventQueue.dequeue_if_needed

    def enqueue(queue: Any, event: Any) -> None:
        frees.append(event)
        add(queue, event)

    def dequeue(queue: Any) -> Any:
        event = take(queue)
        if event is not None:
            place = next(i for i, free in enumerate(frees) if free is event)
            waits.append((record.step, record.micro_batch, place))
        return event

    monkeypatch.setattr(_FreeEventQueue, "enqueue", enqueue)
    monkeypatch.setattr(_FreeEventQueue, "dequeue_if_needed", dequeue)
    monkeypatch.setattr(fsdp1, "Record", lambda: record)
    with fake_ranks(case.world_size):
        fsdp1.observe(case, 0)
    assert waits == waits_of(plan_of(scenario_of(case)))


def planned_peak(plan: Plan) -> int:
    """The most that forward and backward of the last step allocate beyond what stays."""
    held: dict[str, int] = {}
    now = most = 0
    for op in plan.ops:
        for allocation in op.allocates:
            held[allocation.key] = allocation.nbytes
            now += allocation.nbytes
        if op.step == plan.ops[-1].step:
            most = max(most, now)
        for key in op.frees:
            now -= held.pop(key)
    return most


def real_peak(case: Case) -> int:
    """The same of torch's CPU allocator, from the profiler's memory events of the last step."""
    scenario, record = scenario_of(case), Record()
    options = Fsdp1Options(**scenario.schedule.options)
    engine = fsdp1.wrapped(scenario, options, record)
    optimizer = torch.optim.SGD(engine.parameters(), lr=0.0, foreach=False)
    every, last = list(batches(scenario, record, 0)), scenario.workload.micro_batches
    for start in range(0, len(every), last):
        profile = torch.profiler.profile(
            activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True
        )
        with profile:
            for i, batch in enumerate(every[start : start + last]):
                alone = options.no_sync and i + 1 < last
                with engine.no_sync() if alone else nullcontext():
                    engine(batch).backward()
        optimizer.step()
        optimizer.zero_grad()
    events: Any = profile.profiler
    now = most = 0
    for event in sorted(events.kineto_results.events(), key=lambda e: e.start_ns()):
        if event.name() == "[memory]":
            now += event.nbytes()
            most = max(most, now)
    return most


@pytest.mark.runtime
@pytest.mark.parametrize(
    ("n_ranks", "workload", "numerics", "options"),
    [
        (2, LAYERS, None, {}),
        (3, LAYERS, None, {}),
        (4, LAYERS, None, {"backward_prefetch": "BACKWARD_POST"}),
        (2, LAYERS, None, {"backward_prefetch": "NO_PREFETCH"}),
        (2, LAYERS, None, {"forward_prefetch": True}),
        (2, LAYERS, None, {"sharding_strategy": "SHARD_GRAD_OP"}),
        (2, LAYERS, None, {"sharding_strategy": "NO_SHARD"}),
        (2, LAYERS | {"micro_batches": 2}, None, {}),
        (2, LAYERS | {"micro_batches": 2}, None, {"no_sync": True}),
        (2, LAYERS, MIXED, {}),
        (2, LAYERS, MIXED | {"reduce_dtype": "float32"}, {}),
        (2, LAYERS | {"micro_batches": 2}, MIXED, {"no_sync": True}),
        (2, GPT, None, {}),
        (2, GPT | {"tied": True}, None, {}),
        (2, GPT, None, {"wrap": "root"}),
        (4, GPT | {"model": "llama"}, None, {"forward_prefetch": True}),
    ],
    ids=str,
)
def test_the_allocator_peaks_where_the_plan_does(
    n_ranks: int,
    workload: dict[str, Any],
    numerics: dict[str, Any] | None,
    options: dict[str, Any],
) -> None:
    scenario = {
        "workload": workload,
        "schedule": {"name": "fsdp1", **options},
        "numerics": numerics or {"dtype": "float32"},
        "run": {"steps": 3},
    }
    case = Case("peak", "fsdp1", n_ranks, scenario)
    with fake_ranks(n_ranks):
        real = real_peak(case)
    # What layers keep and compute with is small here, and is not FSDP1's.
    assert real == pytest.approx(planned_peak(plan_of(scenario_of(case))), rel=0.01)


class Block(nn.Module):
    """A layer that says when it is called, so that it may be called again."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor, record: Record, name: str) -> torch.Tensor:
        record.begun(name)
        return mark(record, name, self.linear(torch.tanh(x)))


class Chain(nn.Module):
    """Blocks called in the order `calls`."""

    def __init__(self, calls: Sequence[int], arguments: dict[str, Any]) -> None:
        super().__init__()
        self.calls = calls
        self.blocks = nn.ModuleList(
            FullyShardedDataParallel(Block(), **arguments) for _ in set(calls)
        )

    def forward(self, x: torch.Tensor, record: Record) -> torch.Tensor:
        for i, block in enumerate(self.calls):
            x = self.blocks[block](x, record, str(i))
        return x.sum()


def seen_in_chain(calls: Sequence[int], arguments: dict[str, Any]) -> list[Seen]:
    record = Record()
    engine = FullyShardedDataParallel(Chain(calls, arguments), **arguments)
    with watching(record):
        for record.step in (1, 2, 3):
            engine(torch.ones(2, 4), record).backward()
            engine.zero_grad()
    return record.seen


@pytest.mark.runtime
@pytest.mark.parametrize("calls", [(0, 1, 0, 2), (0, 1, 2, 0, 1, 3)], ids=str)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"forward_prefetch": True},
        {"backward_prefetch": "BACKWARD_POST"},
        {"sharding_strategy": "SHARD_GRAD_OP"},
    ],
    ids=str,
)
def test_a_module_that_is_called_twice_is_gathered_and_reduced_as_torch_does(
    calls: tuple[int, ...], options: dict[str, Any]
) -> None:
    weights = (Parameter("weight", (4, 4)), Parameter("bias", (4,)))
    workload = Workload(
        "chain",
        tuple(Unit(str(i), weights) for i in sorted(set(calls))),
        tuple(Layer(str(i), unit, 1, 2, 3) for i, unit in enumerate(calls)),
        tokens=2,
    )
    made = fsdp1_plan(workload, 2, Numerics("float32", "float32"), Fsdp1Options(**options), 3)
    arguments = {
        "sharding_strategy": ShardingStrategy[options.get("sharding_strategy", "FULL_SHARD")],
        "backward_prefetch": BackwardPrefetch[options.get("backward_prefetch", "BACKWARD_PRE")],
        "forward_prefetch": options.get("forward_prefetch", False),
        "device_id": torch.device("cpu"),
    }
    with fake_ranks(2):
        assert compared(planned(made, 0), seen_in_chain(calls, arguments)) is None
