"""DeepSpeed's keys that are no option here: those without bearing, and those that are not modelled."""

from __future__ import annotations

from typing import Final

from zerosim.configs.draft import Leaf, Rule, only, quiet

_QUIET_ZERO: Final = (
    *("load_from_fp32_weights", "elastic_checkpoint", "ignore_unused_parameters"),
    *("gather_16bit_weights_on_model_save", "stage3_gather_16bit_weights_on_model_save"),
    *("stage3_gather_fp16_weights_on_model_save", "pipeline_loading_checkpoint"),
    *("override_module_apply", "log_trace_cache_warnings", "enable_sanity_checks"),
    *("save_muon_momentum_buffer_in_memory", "cpu_offload_use_pin_memory"),
    "memory_efficient_linear",
)
_QUIET: Final = (
    *("steps_per_print", "wall_clock_breakdown", "memory_breakdown", "dump_state", "log_level"),
    *("scheduler", "checkpoint", "aio", "nebula", "comms_logger", "flops_profiler", "timers"),
    *("tensorboard", "wandb", "csv_monitor", "comet", "monitor_config", "gradient_clipping"),
    *("optimizer.params", "optimizer.legacy_fusion", "gradient_predivide_factor"),
    *("gradient_allreduce_op", "prescale_gradients", "zero_allow_untested_optimizer"),
    *("dataloader_drop_last", "disable_python_gc", "check_overflow", "vocabulary_size"),
    *("seq_parallel_communication_data_type", "managed_gradient_accumulation"),
    *("fp16.loss_scale", "fp16.initial_scale_power", "fp16.loss_scale_window", "fp16.hysteresis"),
    *("fp16.consecutive_hysteresis", "fp16.min_loss_scale", "bf16.check_grad_overflow"),
    *("activation_checkpointing.profile", "activation_checkpointing.number_checkpoints"),
    "activation_checkpointing.synchronize_checkpoint_boundary",
    *("data_types.param_dtype", "data_types.buffer_dtype"),
)


def _disabled(leaf: Leaf) -> None:
    """A section that does nothing unless its `enabled` is true."""
    value = leaf.value
    if not isinstance(value, dict) or value.get("enabled", False) is not False:
        raise leaf.wrong("zerosim does not model it; it reads enabled = false")
    quiet(leaf)


def _no_offload(leaf: Leaf) -> None:
    """Offload to none is no offload; what stands beside it does nothing then."""
    value = leaf.value
    if value is not None and not (
        isinstance(value, dict) and value.get("device") in ("none", None)
    ):
        raise leaf.wrong("zerosim does not model offload; it reads device = 'none'")
    quiet(leaf)


ZERO: Final[dict[str, Rule]] = {
    **dict.fromkeys(_QUIET_ZERO, quiet),
    "offload_param": _no_offload,
    "offload_optimizer": _no_offload,
    "cpu_offload": only(False, None, why="zerosim does not model offload"),
    "cpu_offload_param": only(False, None, why="zerosim does not model offload"),
    "zenflow": only(None),
    "legacy_stage1": only(False),
    "zero_hpz_partition_size": only(1),
    "zero_quantized_weights": only(False),
    "zero_quantized_nontrainable_weights": only(False),
    "zero_quantized_gradients": only(False),
    "mics_shard_size": only(-1),
    "mics_hierarchical_params_gather": only(False),
}
"""Keys of `zero_optimization` that no schedule has."""

OTHER: Final[dict[str, Rule]] = {
    **dict.fromkeys(_QUIET, quiet),
    **dict.fromkeys(
        (
            *("amp", "torch_autocast", "elasticity", "autotuning", "compression_training"),
            *("curriculum_learning", "data_efficiency", "progressive_layer_drop", "eigenvalue"),
            *("quantize_training", "hybrid_engine", "zero_quantized_training"),
        ),
        _disabled,
    ),
    "sparse_gradients": only(False),
    "sparse_attention": only(None),
    "disable_allgather": only(False),
    "zero_force_ds_cpu_optimizer": only(
        True, False, why="zerosim does not model optimizers on the CPU"
    ),
    "sequence_parallel_size": only(1),
    "tensor_parallel": only(None, {}, {"autotp_size": 0}, {"autotp_size": 1}),
    "pipeline": only(None, {}),
    "compile": only(None, {}, {"deepcompile": False}),
    "graph_harvesting": only(False),
    "use_data_before_expert_parallelism": only(False),
    "fp16.auto_cast": quiet,
    "fp16.fp16_master_weights_and_grads": only(False),
    "bf16.immediate_grad_update": only(True, False),
    "bf16.bf16_master_weights_and_grads": only(False),
    "bf16.bf16_optimizer_states": only(False),
    "data_types.keep_in_fp32_modules": only(None, []),
    "activation_checkpointing.partition_activations": only(False),
    "activation_checkpointing.cpu_checkpointing": only(False),
    "activation_checkpointing.contiguous_memory_optimization": only(False),
}
"""Keys beside `zero_optimization`."""
