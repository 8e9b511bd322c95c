"""An Accelerate YAML becomes what `accelerate launch` would start."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.zerosim.configs.conftest import FSDP, ZERO3, Read
from zerosim.errors import InputError

pytest.importorskip("yaml", reason="PyYAML, a dependency, is not installed here")

Origins = Callable[..., dict[str, tuple[object, str]]]
LINE = "config.txt line"
DEEPSPEED = """distributed_type: DEEPSPEED
deepspeed_config:
  zero_stage: 3
  gradient_accumulation_steps: 4
  offload_param_device: none
mixed_precision: bf16
num_processes: 8
"""


def test_fsdp_1_starts_from_accelerates_defaults(origins: Origins) -> None:
    found = origins(FSDP)
    assert found["schedule.name"] == ("fsdp1", f"{LINE} 2: distributed_type")
    place = f"{LINE} 5: fsdp_config.fsdp_sharding_strategy"
    assert found["schedule.sharding_strategy"] == ("SHARD_GRAD_OP", place)
    assert found["schedule.wrap"] == ("layers", f"{LINE} 4: fsdp_config.fsdp_auto_wrap_policy")
    # torch's own defaults are BACKWARD_PRE and false.
    assert found["schedule.backward_prefetch"] == ("NO_PREFETCH", "default of Accelerate")
    assert found["schedule.use_orig_params"] == (True, "default of Accelerate")


def test_micro_batches_before_the_last_are_not_reduced_as_under_accumulate(read: Read) -> None:
    assert read(FSDP).scenario.schedule.options["no_sync"] is True
    two = FSDP.replace("  fsdp_sharding_strategy: SHARD_GRAD_OP", "  fsdp_version: 2")
    assert read(two).scenario.schedule.options["set_requires_gradient_sync"] is False


def test_processes_and_machines_are_ranks_and_nodes(origins: Origins) -> None:
    found = origins(FSDP)
    assert found["cluster.world_size"] == (16, f"{LINE} 9: num_processes")
    assert found["cluster.ranks_per_node"] == (8, f"{LINE} 8: num_machines: 16 / 2")
    assert origins(FSDP, "world_size=32")["cluster.world_size"] == (32, "--set")


def test_mixed_precision_stores_float32_and_reduces_in_16_bits(origins: Origins) -> None:
    found = origins(FSDP)
    fields = ("dtype", "storage_dtype", "reduce_dtype")
    values = [found[f"numerics.{field}"][0] for field in fields]
    assert values == ["bfloat16", "float32", "bfloat16"]
    plain = origins(FSDP.replace("bf16", "'no'"))
    assert plain["numerics.dtype"] == ("float32", "default of Accelerate")


def test_fsdp_2_has_its_own_keys(read: Read) -> None:
    text = FSDP.replace("  fsdp_sharding_strategy: SHARD_GRAD_OP", "  fsdp_version: 2")
    found = read(text + "use_cpu: false\n")
    assert found.scenario.schedule.name == "fsdp2"
    assert found.scenario.schedule.options["reshard_after_forward"] is True
    keep = text.replace(
        "  fsdp_version: 2", "  fsdp_version: 2\n  fsdp_reshard_after_forward: false"
    )
    assert read(keep).scenario.schedule.options["reshard_after_forward"] is False


def test_several_gpus_without_a_plugin_are_ddp(read: Read) -> None:
    scenario = read(
        "distributed_type: MULTI_GPU\nnum_processes: 4\nmixed_precision: fp16\n"
    ).scenario
    assert (scenario.schedule.name, scenario.cluster.world_size) == ("ddp", 4)
    assert (scenario.numerics.dtype, scenario.numerics.grad_dtype) == ("float16", "float32")


def test_deepspeed_keys_become_the_ds_config_that_accelerate_makes(origins: Origins) -> None:
    found = origins(DEEPSPEED)
    assert found["schedule.name"] == ("deepspeed-3", f"{LINE} 3: zero_optimization.stage")
    assert found["workload.micro_batches"] == (4, f"{LINE} 4: gradient_accumulation_steps")
    assert found["workload.micro_batch"][0] == 1
    assert found["schedule.reduce_bucket_size"] == (500_000_000, "default of DeepSpeed")
    assert found["numerics.dtype"] == ("bfloat16", f"{LINE} 6: mixed_precision")


def test_a_deepspeed_file_is_read_from_beside_the_yaml(read: Read, tmp_path: Path) -> None:
    (tmp_path / "ds.json").write_text(ZERO3)
    text = "distributed_type: DEEPSPEED\ndeepspeed_config:\n  deepspeed_config_file: ds.json\n"
    assert read(text).scenario.schedule.options["overlap_comm"] is False
    with pytest.raises(InputError, match=r"line 4: deepspeed_config.zero_stage: .*from that file"):
        read(text + "  zero_stage: 3\n")


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("FSDP", "MEGATRON_LM", "line 2: distributed_type is 'MEGATRON_LM': zerosim reads"),
        ("offload_params: false", "offload_params: true", "line 6: .* is true: zerosim does not"),
        ("TRANSFORMER_BASED", "SIZE_BASED", "line 4: .* is 'SIZE_BASED_WRAP': zerosim reads"),
        ("SHARD_GRAD_OP", "HALF", "line 5: .* is 'HALF': Accelerate takes FULL_SHARD"),
        ("fsdp_offload_params", "fsdp_offload", "line 6: fsdp_config.fsdp_offload: zerosim knows"),
        ("num_machines: 2", "num_machines: 3", "line 8: num_machines is 3: give a number that"),
        ("bf16", "fp8", "line 7: mixed_precision is 'fp8': zerosim reads no, bf16 and fp16"),
        ("bf16", "bf16: x", "line 7 at 'mixed_precision': mapping values are not allowed here"),
        ("bf16", "&a bf16\nx: *a", r"line 8: alias '\*a': write it out"),
        ("num_machines: 2", "num_processes: 4", "line 9 at 'num_processes': it stands twice"),
        ("bf16", "!!python/object:os.system x", "line 7 at 'mixed_precision': could not determine"),
    ],
)
def test_what_is_wrong_is_said_with_line_and_key(
    old: str, new: str, sentence: str, read: Read
) -> None:
    assert old in FSDP
    with pytest.raises(InputError, match=sentence):
        read(FSDP.replace(old, new))
