"""An Accelerate YAML: DDP, FSDP1, FSDP2 or DeepSpeed, as `accelerate launch` would start it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from zerosim.configs.deepspeed import hidden_autos, read_deepspeed
from zerosim.configs.document import Document, read_document
from zerosim.configs.draft import Draft, Leaf, Rule, checked, elsewhere, only, quiet, read
from zerosim.errors import ScenarioError

ENGINE: Final = "Accelerate"
_HALVES: Final = {"bf16": "bfloat16", "fp16": "float16"}
_STRATEGIES: Final = (
    "FULL_SHARD",
    "SHARD_GRAD_OP",
    "NO_SHARD",
    "HYBRID_SHARD",
    "HYBRID_SHARD_ZERO2",
)
_PREFETCHES: Final = ("BACKWARD_PRE", "BACKWARD_POST", "NO_PREFETCH")
_WRAPS: Final = {"TRANSFORMER_BASED_WRAP": "layers", "NO_WRAP": "root"}
_QUIET: Final = (
    *("compute_environment", "debug", "machine_rank", "main_process_ip", "main_process_port"),
    *("rdzv_backend", "same_network", "main_training_function", "enable_cpu_affinity", "gpu_ids"),
    *("tpu_env", "tpu_use_cluster", "tpu_use_sudo", "tpu_name", "tpu_zone", "command_file"),
    *("commands", "fsdp_config.fsdp_cpu_ram_efficient_loading", "tpu_vm"),
    *("fsdp_config.fsdp_sync_module_states", "fsdp_config.fsdp_state_dict_type"),
    *("fsdp_config.fsdp_transformer_layer_cls_to_wrap", "fsdp_config.fsdp_min_num_params"),
    "fsdp_config.fsdp_version",
    *("deepspeed_config.deepspeed_multinode_launcher", "deepspeed_config.deepspeed_hostfile"),
    *("deepspeed_config.zero3_init_flag", "deepspeed_config.zero3_save_16bit_model"),
    *("deepspeed_config.gradient_clipping", "deepspeed_config.deepspeed_moe_layer_cls_names"),
    *("deepspeed_config.deepspeed_exclusion_filter", "deepspeed_config.deepspeed_inclusion_filter"),
    *("deepspeed_config.offload_optimizer_nvme_path", "deepspeed_config.offload_param_nvme_path"),
)
_IN_DEEPSPEED: Final = {
    "zero_stage": ("zero_optimization", "stage"),
    "gradient_accumulation_steps": ("gradient_accumulation_steps",),
    "offload_optimizer_device": ("zero_optimization", "offload_optimizer", "device"),
    "offload_param_device": ("zero_optimization", "offload_param", "device"),
}
"""Keys of deepspeed_config, and where Accelerate puts them in the ds_config that it makes."""


def is_accelerate(tree: Mapping[str, Any]) -> bool:
    """Whether a file is one that `accelerate config` writes."""
    return "distributed_type" in tree or "compute_environment" in tree


def read_accelerate(document: Document, draft: Draft) -> None:
    """Read a YAML into `draft`. Raises ScenarioError, UnknownNameError."""
    kind, place = document.tree.get("distributed_type", "NO"), document.place(("distributed_type",))
    _ranks(document, draft)
    draft.put("numerics.dtype", "float32", f"default of {ENGINE}")
    if kind in ("MULTI_GPU", "MULTI_CPU"):
        draft.schedule("ddp", place, "DDP")
    elif kind == "FSDP":
        _fsdp(document, draft)
    elif kind == "DEEPSPEED":
        _deepspeed(document, draft)
    else:
        raise ScenarioError(f"{place} is '{kind}': zerosim reads MULTI_GPU, FSDP and DEEPSPEED")
    _precision(document, draft, str(kind))
    read(document, draft, _rules(document, str(kind)))


def _rules(document: Document, kind: str) -> dict[str, Rule]:
    rules: dict[str, Rule] = {
        **dict.fromkeys(_QUIET, quiet),
        "distributed_type": elsewhere,
        "num_processes": elsewhere,
        "num_machines": elsewhere,
        "mixed_precision": elsewhere,
        "use_cpu": only(False, why="zerosim's machines have GPUs"),
        "downcast_bf16": only("no", False),
        "dynamo_config": only({}, {"dynamo_backend": "NO"}, why="zerosim has no compiled kernels"),
        "dynamo_backend": only("NO", why="zerosim does not model compiled kernels"),
        "megatron_lm_config": only({}, None),
        "parallelism_config": only({}, None),
        "fp8_config": only({}, None),
        "mpirun_config": quiet,
    }
    if kind == "FSDP":
        return rules | _fsdp_rules(_version(document))
    rules["fsdp_config"] = only({}, None, why=f"distributed_type is {kind}, so it does nothing")
    if kind == "DEEPSPEED":
        return rules | {f"deepspeed_config.{key}": elsewhere for key in (*_IN_DEEPSPEED, _FILE)}
    rules["deepspeed_config"] = only({}, None, why=f"distributed_type is {kind}: it does nothing")
    return rules


_FILE: Final = "deepspeed_config_file"


def _ranks(document: Document, draft: Draft) -> None:
    key = ("num_processes",)
    if key[0] not in document.tree:
        return
    ranks = checked(Leaf(draft, key, document.tree[key[0]], document.place(key)))
    if draft.number_asked("world_size") is None:
        draft.put("cluster.world_size", ranks, document.place(key))
    machines = document.tree.get("num_machines", 1)
    place = document.place(("num_machines",))
    if type(machines) is not int or machines < 1 or ranks % machines:
        raise ScenarioError(
            f"{place} is {machines!r}: give a number that divides {ranks} processes"
        )
    if machines > 1:
        draft.put("cluster.ranks_per_node", ranks // machines, f"{place}: {ranks} / {machines}")


def _precision(document: Document, draft: Draft, kind: str) -> None:
    given, place = document.tree.get("mixed_precision", "no"), document.place(("mixed_precision",))
    if given in ("no", False):
        return
    if not isinstance(given, str) or given not in _HALVES:
        raise ScenarioError(f"{place} is '{given}': zerosim reads no, bf16 and fp16")
    half = _HALVES[given]
    if kind == "DEEPSPEED":
        draft.numerics({"dtype": half}, place)
    elif kind == "FSDP":
        draft.numerics({"dtype": half, "storage_dtype": "float32", "reduce_dtype": half}, place)
    else:
        # Under autocast parameters and gradients stay float32, and kernels compute in 16 bits.
        draft.numerics(
            {"dtype": half, "grad_dtype": "float32", "storage_dtype": "float32"},
            f"{place} (autocast)",
        )


def _version(document: Document) -> int:
    table = document.tree.get("fsdp_config") or {}
    version = table.get("fsdp_version", 1) if isinstance(table, Mapping) else 1
    if version not in (1, 2):
        place = document.place(("fsdp_config", "fsdp_version"))
        raise ScenarioError(f"{place} is {version!r}: {ENGINE} takes 1 or 2")
    return int(version)


def _fsdp(document: Document, draft: Draft) -> None:
    version = _version(document)
    place = document.place(("fsdp_config", "fsdp_version"))
    where = place if place.line is not None else document.place(("distributed_type",))
    default = f"default of {ENGINE}"
    if version == 1:
        draft.schedule("fsdp1", where, "FSDP1")
        draft.put("schedule.backward_prefetch", "NO_PREFETCH", default)
        draft.put("schedule.use_orig_params", value=True, origin=default)
        draft.put("schedule.no_sync", value=True, origin=f"{default}: accumulate()")
    else:
        draft.schedule("fsdp2", where, "FSDP2")
        draft.put("schedule.reshard_after_forward", value=True, origin=default)
        draft.put(
            "schedule.set_requires_gradient_sync", value=False, origin=f"{default}: accumulate()"
        )
    draft.put("schedule.wrap", "root", f"{default}: NO_WRAP")


def _fsdp_rules(version: int) -> dict[str, Rule]:
    shared: dict[str, Rule] = {
        "fsdp_auto_wrap_policy": _wrap,
        "fsdp_offload_params": only(False, why="zerosim does not model offload"),
        "fsdp_activation_checkpointing": _checkpointing,
        "fsdp_activation_checkpointing_offload": only(False, why="zerosim does not model offload"),
    }
    own: dict[str, Rule] = {
        "fsdp_sharding_strategy": _strategy,
        "fsdp_reshard_after_forward": _strategy,
        "fsdp_backward_prefetch": _prefetch,
        "fsdp_forward_prefetch": _truth("schedule.forward_prefetch"),
        "fsdp_use_orig_params": _truth("schedule.use_orig_params"),
    }
    if version == 2:  # noqa: PLR2004 - FSDP2
        own = {
            "fsdp_reshard_after_forward": _truth("schedule.reshard_after_forward"),
            # FSDP2 has none of these, and Accelerate drops them with a warning.
            "fsdp_sharding_strategy": quiet,
            "fsdp_backward_prefetch": quiet,
            "fsdp_forward_prefetch": quiet,
            "fsdp_use_orig_params": quiet,
        }
    return {f"fsdp_config.{name}": rule for name, rule in (shared | own).items()}


def _wrap(leaf: Leaf) -> None:
    policy = str(leaf.value).upper()
    if policy not in _WRAPS:
        raise leaf.wrong(f"zerosim reads {' and '.join(_WRAPS)}")
    leaf.draft.put("schedule.wrap", _WRAPS[policy], leaf.place)


def _strategy(leaf: Leaf) -> None:
    value = leaf.value
    if type(value) is int and 1 <= value <= len(_STRATEGIES):
        value = _STRATEGIES[value - 1]
    name = str(value).upper()
    if name not in _STRATEGIES:
        raise leaf.wrong(f"{ENGINE} takes {', '.join(_STRATEGIES)} with FSDP1")
    name = "_HYBRID_SHARD_ZERO2" if name == "HYBRID_SHARD_ZERO2" else name
    leaf.draft.put("schedule.sharding_strategy", name, leaf.place)


def _prefetch(leaf: Leaf) -> None:
    name = "NO_PREFETCH" if leaf.value is None else str(leaf.value).upper()
    if name not in _PREFETCHES:
        raise leaf.wrong(f"{ENGINE} takes {', '.join(_PREFETCHES)}")
    leaf.draft.put("schedule.backward_prefetch", name, leaf.place)


def _truth(where: str) -> Rule:
    def rule(leaf: Leaf) -> None:
        leaf.draft.put(where, checked(leaf, bool), leaf.place)

    return rule


def _checkpointing(leaf: Leaf) -> None:
    if checked(leaf, bool):
        leaf.draft.put("workload.checkpointing", "full", leaf.place)
    else:
        quiet(leaf)


def _deepspeed(document: Document, draft: Draft) -> None:
    table = document.tree.get("deepspeed_config")
    if not isinstance(table, Mapping):
        place = document.place(("deepspeed_config",))
        raise ScenarioError(f"{place} is no table: give zero_stage, or {_FILE}")
    if table.get(_FILE) is None:
        read_deepspeed(_made(document, table), draft, _autos(draft))
        return
    beside = next((key for key in _IN_DEEPSPEED if key in table), None)
    beside = beside or ("mixed_precision" if "mixed_precision" in document.tree else None)
    if beside is not None:
        keys = (beside,) if beside == "mixed_precision" else ("deepspeed_config", beside)
        raise ScenarioError(
            f"{document.place(keys)}: with {_FILE} {ENGINE} takes it from that file: take it out here"
        )
    read_deepspeed(read_document(document.home / str(table[_FILE])), draft, _autos(draft))


def _made(document: Document, table: Mapping[str, Any]) -> Document:
    """The ds_config that Accelerate makes of its own keys, each with its line in the YAML."""
    tree: dict[str, Any] = {
        "train_micro_batch_size_per_gpu": "auto",
        "gradient_accumulation_steps": "auto",
        "zero_optimization": {"stage": 2},
    }
    lines: dict[tuple[str, ...], int] = {}
    for key, target in _IN_DEEPSPEED.items():
        if key in table:
            place: dict[str, Any] = tree
            for step in target[:-1]:
                place = place.setdefault(step, {})
            place[target[-1]] = table[key]
            line = document.lines.get(("deepspeed_config", key))
            lines |= {} if line is None else {target[:n]: line for n in range(1, len(target) + 1)}
    return replace(document, tree=tree, lines=lines)


def _autos(draft: Draft) -> dict[str, tuple[Any, str]]:
    micro = draft.number_asked("micro_batch") or draft.get("workload.micro_batch") or 1
    return {
        "train_micro_batch_size_per_gpu": (micro, "the data loader's batch; set micro_batch"),
        "gradient_accumulation_steps": (1, f"default of {ENGINE}"),
        "bf16.enabled": (False, "mixed_precision"),
        "fp16.enabled": (False, "mixed_precision"),
        **hidden_autos(draft),
    }
