"""A ds_config.json: ZeRO's keys are the schedule's options, `auto` is filled in, nothing is ignored."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.zerosim.configs.conftest import ZERO3, Read
from zerosim.errors import InputError
from zerosim.scenario import plan_of, workload_of

Origins = Callable[..., dict[str, tuple[object, str]]]
LINE = "config.txt line"


def test_every_field_says_where_it_is_from(origins: Origins) -> None:
    found = origins(ZERO3)
    assert found["schedule.name"] == ("deepspeed-3", f"{LINE} 5: zero_optimization.stage")
    assert found["schedule.overlap_comm"] == (False, f"{LINE} 6: zero_optimization.overlap_comm")
    assert found["schedule.reduce_scatter"] == (True, "default of DeepSpeed")
    assert found["numerics.dtype"] == ("bfloat16", f"{LINE} 2: bf16.enabled")
    assert found["numerics.optimizer"] == ("adamw", f"{LINE} 3: optimizer.type")
    assert found["workload.hidden"] == (4096, "config.json line 3: hidden_size")
    assert found["workload.micro_batch"] == (2, f"{LINE} 13: train_micro_batch_size_per_gpu")
    assert found["cluster.name"] == ("dgx-h100", "default of zerosim")


def test_autos_are_filled_in_from_the_hidden_size(origins: Origins) -> None:
    found = origins(ZERO3)
    hidden = 4096
    place = f"{LINE} 7: zero_optimization.reduce_bucket_size auto → {hidden**2} (h² of h = 4096)"
    assert found["schedule.reduce_bucket_size"] == (hidden**2, place)
    assert found["schedule.stage3_prefetch_bucket_size"][0] == int(0.9 * hidden**2)
    assert found["schedule.stage3_param_persistence_threshold"][0] == 10 * hidden
    assert found["schedule.stage3_max_live_parameters"][0] == 2_000_000_000


def test_autos_of_the_trainer_are_its_defaults(origins: Origins) -> None:
    text = ZERO3.replace('_per_gpu": 2', '_per_gpu": "auto"').replace("true}", '"auto"}')
    found = origins(text)
    why = "default of transformers.TrainingArguments.per_device_train_batch_size"
    place = f"{LINE} 13: train_micro_batch_size_per_gpu auto → 8 ({why})"
    assert found["workload.micro_batch"] == (8, place)
    why = "default of transformers.TrainingArguments.bf16"
    assert found["numerics.dtype"] == (
        "float32",
        f"{LINE} 2: bf16.enabled auto → false ({why})",
    )
    assert origins(text, "micro_batch=3")["workload.micro_batch"] == (3, "--set")


def test_keys_without_bearing_are_listed(read: Read) -> None:
    listed = {place.key: place.line for place in read(ZERO3).no_effect}
    assert listed == {"optimizer.params": 3, "steps_per_print": 14, "rope_theta": 9}


def test_options_of_another_stage_are_listed_not_applied(read: Read) -> None:
    found = read(ZERO3.replace('"stage": 3', '"stage": 2'))
    assert found.scenario.schedule.name == "deepspeed-2"
    assert "zero_optimization.stage3_max_live_parameters" in [p.key for p in found.no_effect]


@pytest.mark.parametrize("stage", [1, 2, 3])
def test_dtypes_that_stand_beside_zero_are_options_too(stage: int, read: Read) -> None:
    dtypes = '"communication_data_type": "fp32", "data_types": {"grad_accum_dtype": "fp32"}'
    text = ZERO3.replace('"steps_per_print": 2000', dtypes)
    options = read(text.replace('"stage": 3', f'"stage": {stage}')).scenario.schedule.options
    assert (options["communication_data_type"], options["grad_accum_dtype"]) == ("fp32", "fp32")
    with pytest.raises(InputError, match=r"line 14: .* is 'fp31': DeepSpeed takes"):
        read(text.replace('"fp32", "data', '"fp31", "data'))


def test_the_imported_scenario_is_one_like_any_other(read: Read) -> None:
    scenario = read(ZERO3).scenario
    assert workload_of(scenario).n_params == 6_738_415_616  # Llama 2 7B
    assert "AG" in plan_of(scenario).order
    assert type(scenario).from_dict(scenario.to_dict()) == scenario


@pytest.mark.parametrize(
    ("batches", "ranks", "micro", "steps"),
    [
        ('"train_batch_size": 64', 8, 8, 1),
        ('"train_batch_size": 64, "train_micro_batch_size_per_gpu": 2', 8, 2, 4),
        ('"train_batch_size": 64, "gradient_accumulation_steps": 2', 4, 8, 2),
        ('"train_micro_batch_size_per_gpu": 3', 8, 3, 1),
    ],
)
def test_two_of_the_three_batch_sizes_give_the_third(
    batches: str, ranks: int, micro: int, steps: int, read: Read
) -> None:
    text = f'{{{batches}, "zero_optimization": {{"stage": 2}}}}'
    section = read(text, f"world_size={ranks}").scenario.workload
    assert (section.micro_batch, section.micro_batches) == (micro, steps)


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ('"stage": 3', '"stage": 0', r"line 5: zero_optimization.stage is 0: zerosim reads ZeRO's"),
        ('"overlap_comm": false', '"overlap_com": 1', r"line 6: zero_optimization.overlap_com: .*did you mean 'zero_optimization.overlap_comm'"),
        ('"overlap_comm": false', '"overlap_comm": "no"', r"line 6: .* is 'no': DeepSpeed takes a value of type bool"),
        ('"overlap_comm": false', '"overlap_comm": "auto"', "line 6: .* nobody fills in this 'auto'"),
        ('"overlap_comm": false', '"zero_hpz_partition_size": 8', r"line 6: .*hpz_partition_size is 8: zerosim does not model it; it reads 1"),
        ('"overlap_comm": false', '"offload_param": {"device": "cpu"}', r"line 6: .*offload_param is .*: zerosim does not model offload"),
        ('"reduce_bucket_size": "auto"', '"reduce_bucket_size": 0', r"line 7: .*reduce_bucket_size: schedule.reduce_bucket_size is 0: "),
        ('"steps_per_print": 2000', '"stepz": 1', "line 14: stepz: zerosim knows no such key"),
        ('"steps_per_print": 2000', '"amp": {"enabled": true}', "line 14: amp is .*: zerosim does not model it"),
        ('"AdamW"', '"OneBitAdam"', "line 3: optimizer.type is 'OneBitAdam': zerosim knows the states"),
        ('_per_gpu": 2', '_per_gpu": 0', "line 13: .* is 0: give at least 1"),
        ('"steps_per_print": 2000', '"train_batch_size": 65', r"line 14: train_batch_size is 65: DeepSpeed asks for micro_batch_per_gpu · gradient_acc_step · world_size, 2 · 4 · 8"),
        ('"gradient_accumulation_steps": 4,\n  "train_micro_batch_size_per_gpu": 2,', "", "DeepSpeed asks for train_batch_size or"),
        ('{"type": "AdamW", "params": {"lr": 1e-4}}', "2", "line 3: optimizer is 2: give a table of"),
        ('{"type": "AdamW", "params": {"lr": 1e-4}}', "[]", r"line 3: optimizer is \[\]: give a table"),
        ('"stage": 3,', '"stage": 3, // all', r"line 5 at 'zero_optimization.stage': JSON has no comments"),
        ('"overlap_comm": false', '"use_reentrant": true', "line 6: .*use_reentrant: zerosim knows no"),
        ("2000\n", "2000,\n", r"line 14 at 'steps_per_print': a comma before '}': take it out"),
        ('"stage": 3,', '"stage": 3, "stage": 2,', r"line 5 at 'zero_optimization.stage': the key stands twice"),
        ('"stage": 3,', '"stage": 3', r"line 6 at 'zero_optimization.stage': expected ',' or '}'"),
        ('"stage": 3', '"stage": tree', r"line 5 at 'zero_optimization.stage': 'tree' is no JSON value"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_with_line_and_key(
    old: str, new: str, sentence: str, read: Read
) -> None:
    assert old in ZERO3
    with pytest.raises(InputError, match=sentence):
        read(ZERO3.replace(old, new))


def test_a_hidden_auto_without_a_model_asks_for_one(read: Read) -> None:
    with pytest.raises(
        InputError, match=r"line 7: .*reduce_bucket_size is 'auto': .*--model-config"
    ):
        read(ZERO3, model=None)


def test_an_empty_table_says_nothing(read: Read) -> None:
    text = ZERO3.replace('{"type": "AdamW", "params": {"lr": 1e-4}}', "{}")
    assert read(text).scenario.schedule.name == "deepspeed-3"
