"""From rows to scenarios: each framework's schedule, dtypes, machine and checkpointing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from zerosim.errors import MeasurementError
from zerosim.scenario import workload_of
from zerosim.validation.predict import predicted
from zerosim.validation.rows import StepRow, read_steps
from zerosim.validation.steps import simulated


def test_composer_is_fsdp1_with_its_own_prefetch(row: Callable[..., StepRow]) -> None:
    found = simulated(row())
    assert found.scenario.schedule.name == "fsdp1"
    assert found.scenario.schedule.options == {"backward_prefetch": "BACKWARD_POST"}
    assert found.scenario.numerics.dtype == "bfloat16"
    assert found.scenario.numerics.reduce_dtype == "bfloat16"
    assert found.scenario.numerics.storage_dtype == "float32"
    assert found.scenario.cluster.inter_busbw == 200e9
    assert found.defaults == ()


@pytest.mark.parametrize(
    ("given", "schedule", "options"),
    [
        (
            {"framework": "PyTorch FSDP", "zero_stage": "2"},
            "fsdp1",
            {"sharding_strategy": "SHARD_GRAD_OP"},
        ),
        (
            {"framework": "PyTorch FSDP", "shard_group": "8"},
            "fsdp1",
            {"sharding_strategy": "HYBRID_SHARD", "shard_mesh_size": 8},
        ),
        ({"framework": "lit-gpt + PyTorch FSDP"}, "fsdp1", {"no_sync": True}),
        ({"framework": "torchtitan FSDP2", "rs_dtype": "fp32"}, "fsdp2", {}),
        ({"framework": "torchtitan FSDP1"}, "fsdp1", {}),
        (
            {"framework": "HF Trainer + DeepSpeed ZeRO-3", "precision": "fp16"},
            "deepspeed-3",
            {
                "reduce_bucket_size": 16777216,
                "stage3_prefetch_bucket_size": 15099494,
                "stage3_param_persistence_threshold": 40960,
            },
        ),
        (
            {"framework": "Megatron + DeepSpeed ZeRO-2", "zero_stage": "2"},
            "deepspeed-2",
            {},
        ),
        (
            {"framework": "DeepSpeed ZeRO-2", "zero_stage": "2", "date": "2020-05"},
            "deepspeed-2",
            {"use_multi_rank_bucket_allreduce": False},
        ),
        (
            {"framework": "InternEvo", "zero_stage": "1", "shard_group": "8"},
            "zero-redundancy",
            {
                "bucket_cap_mb": 1024.0,
                "parameters_as_bucket_view": True,
                "process_group_size": 8,
            },
        ),
        ({"framework": "llm.c (C/CUDA, MPI/NCCL)", "zero_stage": "1"}, "zero1", {}),
        ({"framework": "PyTorch DDP", "zero_stage": "0", "shard_group": "1"}, "ddp", {}),
    ],
)
def test_each_framework_runs_the_schedule_that_does_what_it_does(
    row: Callable[..., StepRow], given: dict[str, str], schedule: str, options: dict[str, object]
) -> None:
    found = simulated(row(**given)).scenario.schedule
    assert (found.name, found.options) == (schedule, options)


@pytest.mark.parametrize(
    ("given", "compiled"),
    [({}, False), ({"compile": "yes"}, True), ({"framework": "llm.c", "zero_stage": "1"}, True)],
)
def test_kernels_are_fused_by_a_compiler_or_by_hand(
    row: Callable[..., StepRow], given: dict[str, str], compiled: bool
) -> None:
    assert simulated(row(**given)).scenario.workload.compile is compiled


def test_a_wire_dtype_that_is_not_stated_is_that_of_computing_and_counted(
    row: Callable[..., StepRow],
) -> None:
    found = simulated(row(ag_dtype="", rs_dtype="", precision="bf16 (DEFAULT)"))
    assert found.scenario.numerics.reduce_dtype == "bfloat16"
    assert [(d.column, d.value) for d in found.defaults] == [
        ("ag_dtype", "bfloat16"),
        ("rs_dtype", "bfloat16"),
    ]


def test_autocast_keeps_gradients_of_ddp_in_float32(row: Callable[..., StepRow]) -> None:
    found = simulated(row(framework="PyTorch DDP", zero_stage="0", shard_group="1"))
    assert found.scenario.numerics.grad_dtype == "float32"
    assert found.scenario.numerics.storage_dtype == "float32"


def test_partial_checkpointing_counts_its_layers(row: Callable[..., StepRow]) -> None:
    given = {"act_ckpt": "partial", "act_ckpt_note": "5 of 32 layers checkpointed"}
    workload = workload_of(simulated(row(**given)).scenario)
    again = [layer.recompute_flops > 0 for layer in workload.layers]
    assert again == [False] + [True] * 5 + [False] * 28


@pytest.mark.parametrize(
    ("date", "framework", "early"),
    [
        ("2024-04-22", "Composer/PyTorch FSDP1", True),
        ("2023-10", "PyTorch FSDP1", True),
        ("2023", "Composer/PyTorch FSDP1", False),
        ("2021-05", "PyTorch DDP", False),
        ("2024-04", "InternEvo", False),
    ],
)
def test_torchs_checkpoint_stops_early_since_october_2023(
    row: Callable[..., StepRow], date: str, framework: str, early: bool
) -> None:
    ddp = {"zero_stage": "0", "shard_group": "1"} if "FSDP" not in framework else {}
    found = simulated(row(act_ckpt="full", date=date, framework=framework, **ddp))
    assert found.scenario.workload.early_stop is early
    assert any(default.value == "stops early" for default in found.defaults) is early


def test_a_compiled_row_is_compiled(row: Callable[..., StepRow]) -> None:
    assert simulated(row(compile="yes")).scenario.workload.compile
    assert not simulated(row(compile="no")).scenario.workload.compile


def test_selective_checkpointing_without_more_is_half_the_layers(
    row: Callable[..., StepRow],
) -> None:
    ops = simulated(row(act_ckpt="selective", act_ckpt_note="per-op SAC"))
    assert ops.scenario.workload.checkpointing == "ops"
    assert ops.defaults == ()
    found = simulated(row(act_ckpt="selective", act_ckpt_note="selective layer"))
    assert found.scenario.workload.checkpointed_layers == 16
    assert found.defaults[0].column == "act_ckpt_note"


def test_selective_checkpointing_is_bounded_by_hfu_over_mfu(row: Callable[..., StepRow]) -> None:
    found = simulated(row(act_ckpt="selective", hfu_stated="0.55", mfu_stated="0.5"))
    # 10 % more FLOPs are 30 % of a forward: 9.6 of 32 layers.
    assert found.scenario.workload.checkpointed_layers == 10


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"gpu": ""}, "gpu is blank: no machine has it"),
        ({"gpu": "TPU v5"}, "gpu is 'TPU v5': no machine has it"),
        ({"framework": "ColossalAI Gemini"}, "framework is 'ColossalAI Gemini': no schedule"),
        ({"params": "1000000000"}, "params is 1e\\+09, but a decoder of its sizes has"),
        ({"precision": "fp8"}, "precision is 'fp8': known are"),
        ({"act_ckpt": "some"}, "act_ckpt is 'some': give none"),
        ({"ag_dtype": "int3"}, "ag_dtype is 'int3': known are"),
        ({"step_time_s": "0.5"}, "of the peak of its GPU"),
        (
            {"framework": "DeepSpeed ZeRO-3", "shard_group": "8"},
            "DeepSpeed shards over 8 of 16 GPUs",
        ),
    ],
)
def test_a_row_without_an_honest_scenario_is_refused(
    row: Callable[..., StepRow], given: dict[str, str], said: str
) -> None:
    with pytest.raises(MeasurementError, match=f"row R1: {said}|{said}"):
        predicted(row(**given))


@pytest.mark.parametrize("framework", ["Composer", "torchtitan FSDP2", "PyTorch DDP"])
def test_very_many_micro_batches_take_what_each_takes(
    row: Callable[..., StepRow], framework: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {"layers": "2", "params": "617463808", "grad_accum": "24", "step_time_s": "60"}
    stage = "0" if "DDP" in framework else "3"
    many = row(framework=framework, zero_stage=stage, shard_group="", **given)
    one_by_one = predicted(many).seconds
    monkeypatch.setattr("zerosim.validation.trial.DEEP", 8)
    assert predicted(many).seconds == pytest.approx(one_by_one, rel=1e-6)


def test_parameters_of_every_complete_row_are_those_of_its_workload(measured: Path) -> None:
    rows, _ = read_steps(measured / "step_times.csv")
    for one in rows:
        if one.simulatable == "yes":
            counted = workload_of(simulated(one).scenario).n_params
            assert counted == pytest.approx(one.sizes.params, rel=0.01), one.row_id


@pytest.mark.parametrize(
    ("stated", "kernel"),
    [("flash", "flash1"), ("SDPA flash", "flash"), ("cuDNN flash", "flash"), ("standard", "eager")],
)
def test_a_flash_attention_without_a_version_is_the_first(
    row: Callable[..., StepRow], stated: str, kernel: str
) -> None:
    assert simulated(row(attention=stated)).scenario.workload.attention == kernel


def test_an_attention_that_is_not_stated_is_counted(row: Callable[..., StepRow]) -> None:
    found = simulated(row(attention=""))
    assert found.scenario.workload.attention == "flash1"
    assert [(d.column, d.value) for d in found.defaults] == [("attention", "flash1")]
