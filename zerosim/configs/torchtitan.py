"""A torchtitan job's TOML: FSDP2, HSDP or DDP of a Llama 3, with the numerics it trains in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from zerosim.configs.document import Document
from zerosim.configs.draft import Draft, Leaf, Rule, checked, elsewhere, into, only, quiet, read
from zerosim.errors import ScenarioError, UnknownNameError

ENGINE: Final = "torchtitan"
_Sizes = tuple[int, int, int, int, int, int]
FLAVORS: Final[dict[str, _Sizes]] = {
    "debugmodel": (6, 256, 16, 16, 768, 2048),
    "8B": (32, 4096, 32, 8, 14336, 128256),
    "70B": (80, 8192, 64, 8, 28672, 128256),
    "405B": (126, 16384, 128, 8, 53248, 128256),
}
"""layers, hidden, heads, kv_heads, ffn, vocab of torchtitan/models/llama3."""
_FIELDS: Final = ("layers", "hidden", "heads", "kv_heads", "ffn", "vocab")
_POLICIES: Final = {"default": None, "always": True, "never": False}
_MODES: Final = ("none", "full")
_QUIET: Final = (
    *("job", "profiling", "metrics", "lr_scheduler", "checkpoint", "comm", "memory_estimation"),
    *("validation", "debug", "float8", "mx", "quantize", "experimental"),
    *("model.tokenizer_path", "model.hf_assets_path", "model.print_after_conversion"),
    *("model.norm_type", "optimizer.lr", "optimizer.beta1", "optimizer.beta2", "optimizer.eps"),
    *("optimizer.weight_decay", "optimizer.fused", "optimizer.implementation"),
    *("training.dataset", "training.dataset_path", "training.max_norm", "training.steps"),
    *("training.gc_freq", "training.gc_debug", "training.seed", "training.deterministic"),
    *("training.data_parallel_replicate_degree", "training.warmup_steps"),
    *("parallelism.disable_loss_parallel", "parallelism.context_parallel_rotate_method"),
    "activation_checkpoint.preserve_rng_state",
    "activation_checkpoint.per_op_sac_force_recompute_mm_shapes_by_fqns",
    *("activation_checkpoint.selective_ac_option", "compile.components", "compile.backend"),
)


def is_torchtitan(tree: Mapping[str, Any]) -> bool:
    """Whether a file is a job of torchtitan."""
    tables = [tree.get(name) for name in ("training", "parallelism", "model", "job")]
    return isinstance(tables[0], Mapping) and any(isinstance(t, Mapping) for t in tables[1:])


def read_torchtitan(document: Document, draft: Draft) -> None:
    """Read a job into `draft`. Raises ScenarioError, UnknownNameError."""
    tree = document.tree
    replicate, shard = _degrees(document, draft)
    ranks = replicate * shard
    if shard > 1 or replicate == 1:
        draft.schedule(
            "fsdp2", document.place(("parallelism", "data_parallel_shard_degree")), "FSDP2"
        )
        if replicate > 1:
            place = document.place(("parallelism", "data_parallel_replicate_degree"))
            draft.put("schedule.shard_mesh_size", shard, f"{place}: {ranks} ranks / {replicate}")
        half = tree.get("training", {}).get("mixed_precision_param", "bfloat16")
        draft.numerics(
            {"dtype": str(half), "reduce_dtype": "float32", "storage_dtype": "float32"},
            f"default of {ENGINE}",
        )
    else:
        _ddp(document, draft)
    draft.put("numerics.optimizer", "adamw", f"default of {ENGINE}")
    draft.put("workload.micro_batch", 8, f"default of {ENGINE}")
    draft.put("workload.seq", 2048, f"default of {ENGINE}")
    _checkpointing(document, draft)
    _model(document, draft)
    read(document, draft, _rules())
    _accumulation(document, draft, ranks)


def _rules() -> dict[str, Rule]:
    one = only(1, why="zerosim does not model it")
    return {
        **dict.fromkeys(_QUIET, quiet),
        "model.name": elsewhere,
        "model.flavor": elsewhere,
        "model.converters": only([], "", why="zerosim does not model converters"),
        "optimizer.name": _optimizer,
        "optimizer.early_step_in_backward": only(False),
        "training.local_batch_size": into("workload.micro_batch"),
        "training.batch_size": into("workload.micro_batch"),
        "training.global_batch_size": elsewhere,
        "training.seq_len": into("workload.seq"),
        "training.mixed_precision_param": _param_dtype,
        "training.mixed_precision_reduce": _reduce_dtype,
        "training.dtype": only("float32"),
        "training.enable_cpu_offload": only(False, why="zerosim does not model offload"),
        "training.compile": into("workload.compile", bool),
        "compile.enable": into("workload.compile", bool),
        "activation_checkpoint.early_stop": into("workload.early_stop", bool),
        "parallelism.data_parallel_replicate_degree": elsewhere,
        "parallelism.data_parallel_shard_degree": elsewhere,
        "parallelism.fsdp_reshard_after_forward": _reshard,
        "parallelism.enable_compiled_autograd": only(False),
        "parallelism.enable_async_tensor_parallel": only(False),
        "parallelism.tensor_parallel_degree": one,
        "parallelism.pipeline_parallel_degree": one,
        "parallelism.context_parallel_degree": one,
        "parallelism.expert_parallel_degree": one,
        "parallelism.expert_tensor_parallel_degree": one,
        **dict.fromkeys(_PIPELINE, quiet),
        "activation_checkpoint.mode": elsewhere,
        "fault_tolerance.enable": only(False),
        "fault_tolerance": quiet,
    }


_PIPELINE: Final = tuple(
    f"parallelism.pipeline_parallel_{name}"
    for name in (
        *("split_points", "layers_per_stage", "schedule", "schedule_csv", "microbatch_size"),
        *("first_stage_less_layers", "last_stage_less_layers"),
    )
)


def _degrees(document: Document, draft: Draft) -> tuple[int, int]:
    """Ranks that hold copies, and ranks that share one; -1 is what is left of all ranks."""
    table = document.table("parallelism")
    found = []
    for name, default in (("replicate", 1), ("shard", -1)):
        key = ("parallelism", f"data_parallel_{name}_degree")
        leaf = Leaf(draft, key, table.get(key[1], default), document.place(key))
        found.append(leaf.value if leaf.value == -1 else checked(leaf))
    replicate, shard = found
    place = document.place(("parallelism", "data_parallel_shard_degree"))
    ranks: int = draft.get("cluster.world_size")
    if replicate < 1 or (shard == -1 and ranks % replicate):
        raise ScenarioError(f"{place}: {ranks} ranks do not divide into {replicate} replicas")
    if shard == -1:
        return replicate, ranks // replicate
    draft.put("cluster.world_size", replicate * shard, f"{place}: {replicate} · {shard}")
    return replicate, shard


def _ddp(document: Document, draft: Draft) -> None:
    place = document.place(("parallelism", "data_parallel_replicate_degree"))
    draft.schedule("ddp", place, "DDP")
    draft.put("schedule.bucket_cap_mb", 100.0, f"default of {ENGINE}")
    # Under autocast parameters and gradients stay float32, and kernels compute in bfloat16.
    draft.numerics(
        {"dtype": "bfloat16", "grad_dtype": "float32", "storage_dtype": "float32"},
        f"default of {ENGINE} (autocast)",
    )


def _checkpointing(document: Document, draft: Draft) -> None:
    table = document.table("activation_checkpoint")
    mode = table.get("mode", "selective")
    place = document.place(("activation_checkpoint", "mode"))
    by_op = mode == "selective" and table.get("selective_ac_option") == "op"
    if by_op or mode in _MODES:
        draft.put("workload.checkpointing", "ops" if by_op else mode, place)
    elif "checkpointing" not in draft.asked:
        raise ScenarioError(
            f"{place} is '{mode}'{'' if 'mode' in table else f', the default of {ENGINE}'}: zerosim "
            "models it by 'op' alone; give selective_ac_option = 'op', or --set checkpointing=none"
        )


def _model(document: Document, draft: Draft) -> None:
    table = document.table("model")
    name, flavor = str(table.get("name", "llama3")), str(table.get("flavor", "debugmodel"))
    if draft.get("workload.model") is not None:
        return  # --model-config, or the scenario, says more
    place = document.place(("model", "flavor"))
    if name != "llama3":
        raise ScenarioError(
            f"{document.place(('model', 'name'))} is '{name}': zerosim knows llama3; "
            "give the model with --model-config or a scenario"
        )
    if flavor not in FLAVORS:
        raise UnknownNameError(f"flavor of llama3 at {place}:", flavor, FLAVORS)
    draft.put("workload.model", "llama", document.place(("model", "name")))
    for field, value in zip(_FIELDS, FLAVORS[flavor], strict=True):
        draft.put(f"workload.{field}", value, place)


def _accumulation(document: Document, draft: Draft, ranks: int) -> None:
    total = document.tree.get("training", {}).get("global_batch_size", -1)
    micro: int = draft.get("workload.micro_batch")
    place = document.place(("training", "global_batch_size"))
    if total == -1:
        draft.put("workload.micro_batches", 1, f"default of {ENGINE}")
    elif type(total) is not int or total < 1 or total % (micro * ranks):
        raise ScenarioError(
            f"{place} is {total!r}: {ENGINE} asks for a multiple of local_batch_size · "
            f"data-parallel ranks, {micro} · {ranks}"
        )
    else:
        draft.put(
            "workload.micro_batches", total // (micro * ranks), f"{place} / ({micro} · {ranks})"
        )


def _optimizer(leaf: Leaf) -> None:
    if leaf.value not in ("Adam", "AdamW"):
        raise leaf.wrong("zerosim knows the states of Adam and AdamW")
    leaf.draft.put("numerics.optimizer", leaf.value.lower(), leaf.place)


def _param_dtype(leaf: Leaf) -> None:
    leaf.draft.put("numerics.dtype", checked(leaf, str), leaf.place)


def _reduce_dtype(leaf: Leaf) -> None:
    if leaf.draft.get("numerics.reduce_dtype") is None:
        quiet(leaf)  # it takes effect under FSDP only
    else:
        leaf.draft.put("numerics.reduce_dtype", checked(leaf, str), leaf.place)


def _reshard(leaf: Leaf) -> None:
    if leaf.value not in _POLICIES:
        raise leaf.wrong(f"{ENGINE} takes {', '.join(_POLICIES)}")
    if leaf.draft.get("schedule.name") == "fsdp2":
        leaf.draft.put("schedule.reshard_after_forward", _POLICIES[leaf.value], leaf.place)
    else:
        quiet(leaf)
