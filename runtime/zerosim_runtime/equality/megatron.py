"""Megatron-LM beside the `megatron` schedule: its DistributedDataParallel and optimizer on Gloo.

Needs megatron-core, in a virtual environment of its own: `pip install --no-deps megatron-core` beside
torch. What was observed is kept under tests/golden/megatron.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from importlib import import_module
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import torch
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.overrides import TorchFunctionMode

from zerosim.plan import Plan
from zerosim.scenario import Scenario, numerics_of, plan_of, workload_of
from zerosim.schedules.megatron.options import MegatronOptions
from zerosim_runtime.equality.case import Case, scenario_of
from zerosim_runtime.equality.marked import batches, marked_model
from zerosim_runtime.equality.megatron_cases import CASES
from zerosim_runtime.equality.recording import Replay
from zerosim_runtime.equality.seen import Seen
from zerosim_runtime.equality.watch import Record, watching
from zerosim_runtime.rank import dtype_of

__all__ = ["CASES", "NEEDS", "REPLAY", "observe"]
NEEDS: Final = ("megatron-core", "torch")


def _plan_of(case: Case) -> Plan:
    return plan_of(scenario_of(case))


def _rows_of(_: Case, rows: Sequence[Seen]) -> list[Seen]:
    return list(rows)


REPLAY: Final = Replay(
    Path(__file__).parents[3] / "tests" / "golden" / "megatron", _plan_of, _rows_of
)


def observe(case: Case, rank: int) -> list[Seen]:
    """Train the case's model as Megatron's training loop does and return what this rank did."""
    scenario, record = scenario_of(case), Record()
    options = MegatronOptions(**scenario.schedule.options)
    last = scenario.workload.micro_batches - 1
    with _without_cuda():
        engine, optimizer = _engine(scenario, options, record)
        if options.overlap_param_gather:
            # Its first iteration finds the parameters whole, and gathers nothing.
            engine.disable_forward_pre_hook(param_sync=False)
        with watching(record):
            for batch in batches(scenario, record, rank):
                if record.micro_batch == 0:
                    engine.zero_grad_buffer()
                    optimizer.zero_grad()
                with engine.no_sync() if record.micro_batch < last else nullcontext():
                    optimizer.scale_loss(engine(batch)).backward()
                if record.micro_batch == last:
                    engine.finish_grad_sync()
                    optimizer.step()
                    if options.overlap_param_gather and record.step == 1:
                        engine.enable_forward_pre_hook()
    return record.seen


def _engine(scenario: Scenario, options: MegatronOptions, record: Record) -> tuple[Any, Any]:
    core: Callable[[str], Any] = lambda name: import_module(f"megatron.core.{name}")  # noqa: E731 - a short name for here
    if not core("parallel_state").model_parallel_is_initialized():
        core("parallel_state").initialize_model_parallel()
    numerics, model = numerics_of(scenario), marked_model(scenario, record)
    for i, layer in enumerate(workload_of(scenario).layers):
        if layer.recompute_flops:
            model.layers[i] = checkpoint_wrapper(model.layers[i])
    dtype = dtype_of(numerics.dtype)
    dtypes = {
        "params_dtype": dtype,
        "bf16": dtype is torch.bfloat16,
        "fp16": dtype is torch.float16,
    }
    in_fp32 = options.grad_reduce_in_fp32
    engine = core("distributed").DistributedDataParallel(
        core("transformer").TransformerConfig(
            num_layers=1, hidden_size=1, num_attention_heads=1, **dtypes
        ),
        core("distributed").DistributedDataParallelConfig(
            use_distributed_optimizer=True,
            overlap_grad_reduce=options.overlap_grad_reduce,
            overlap_param_gather=options.overlap_param_gather,
            bucket_size=options.bucket_size,
            # What Megatron's arguments make of bf16.
            grad_reduce_in_fp32=dtype is torch.bfloat16 if in_fp32 is None else in_fp32,
            pad_buckets_for_high_nccl_busbw=options.pad_buckets_for_high_nccl_busbw,
        ),
        model,
    )
    config = core("optimizer").OptimizerConfig(
        lr=1e-3,
        use_distributed_optimizer=True,
        overlap_param_gather=options.overlap_param_gather,
        # So small that no step is skipped.
        initial_loss_scale=1.0,
        min_loss_scale=1.0,
        **dtypes,
    )
    return engine, core("optimizer").get_megatron_optimizer(config, [engine])


class _OnCpu(TorchFunctionMode):
    """Puts what is asked for on a GPU on the CPU, where tensors pass for CUDA's."""

    def __torch_function__(
        self,
        func: Any,  # noqa: ANN401 - torch's protocol
        types: Any,  # noqa: ANN401 - same
        args: tuple[Any, ...] = (),
        kwargs: Any = None,  # noqa: ANN401 - same
    ) -> Any:  # noqa: ANN401 - same
        named = dict(kwargs or {})
        if "cuda" in str(named.get("device")):
            named["device"] = "cpu"
        if func is torch.Tensor.cuda:
            return args[0]
        if func is torch.Tensor.type and len(args) == 1 and not named:
            return str(func(*args)).replace("torch.", "torch.cuda.")
        return func(*args, **named)


@contextmanager
def _without_cuda() -> Iterator[None]:
    with (
        warnings.catch_warnings(),
        patch.object(torch.cuda, "current_device", lambda: "cpu"),
        _OnCpu(),
    ):
        warnings.simplefilter("ignore")
        yield
