"""Configurations as people write them, each in a directory of its own, changed by one text in a test."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from zerosim.configs import Imported, from_files

ZERO3 = """{
  "bf16": {"enabled": true},
  "optimizer": {"type": "AdamW", "params": {"lr": 1e-4}},
  "zero_optimization": {
    "stage": 3,
    "overlap_comm": false,
    "reduce_bucket_size": "auto",
    "stage3_prefetch_bucket_size": "auto",
    "stage3_param_persistence_threshold": "auto",
    "stage3_max_live_parameters": 2e9
  },
  "gradient_accumulation_steps": 4,
  "train_micro_batch_size_per_gpu": 2,
  "steps_per_print": 2000
}
"""
LLAMA = """{
  "model_type": "llama",
  "hidden_size": 4096,
  "intermediate_size": 11008,
  "max_position_embeddings": 4096,
  "num_attention_heads": 32,
  "num_hidden_layers": 32,
  "vocab_size": 32000,
  "rope_theta": 10000.0
}
"""
FSDP = """compute_environment: LOCAL_MACHINE
distributed_type: FSDP
fsdp_config:
  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP
  fsdp_sharding_strategy: SHARD_GRAD_OP
  fsdp_offload_params: false
mixed_precision: bf16
num_machines: 2
num_processes: 16
"""
TITAN = """[job]
dump_folder = "./outputs"

[model]
name = "llama3"
flavor = "8B"

[training]
local_batch_size = 1
global_batch_size = 128
seq_len = 8192

[parallelism]
data_parallel_replicate_degree = 2
data_parallel_shard_degree = 32

[activation_checkpoint]
mode = "full"
"""

Read = Callable[..., Imported]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """A scenario from a text of `ds.json`, … and, unless told otherwise, of a Llama's config.json."""

    def of(text: str, *words: str, model: str | None = LLAMA, base: str | None = None) -> Imported:
        config = tmp_path / "config.txt"  # the content decides, not the name
        config.write_text(text)
        path = None
        if model is not None:
            path = tmp_path / "config.json"
            path.write_text(model)
        return from_files(config, model=path, base=base, words=words)

    return of


@pytest.fixture
def origins(read: Read) -> Callable[..., dict[str, tuple[object, str]]]:
    """Value and origin of each field of such a scenario."""

    def of(
        text: str, *words: str, model: str | None = LLAMA, base: str | None = None
    ) -> dict[str, tuple[object, str]]:
        found = read(text, *words, model=model, base=base)
        return {origin.field: (origin.value, origin.origin) for origin in found.origins}

    return of
