"""A torchtitan TOML: FSDP2, HSDP or DDP of a Llama 3 flavor."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.zerosim.configs.conftest import TITAN, Read
from zerosim.configs.torchtitan import FLAVORS
from zerosim.errors import InputError
from zerosim.scenario import workload_of

Origins = Callable[..., dict[str, tuple[object, str]]]
LINE = "config.txt line"


def test_degrees_are_a_hybrid_shard_and_its_ranks(origins: Origins) -> None:
    found = origins(TITAN, model=None)
    assert found["schedule.name"][0] == "fsdp2"
    place = f"{LINE} 14: parallelism.data_parallel_replicate_degree: 64 ranks / 2"
    assert found["schedule.shard_mesh_size"] == (32, place)
    place = f"{LINE} 15: parallelism.data_parallel_shard_degree: 2 · 32"
    assert found["cluster.world_size"] == (64, place)


def test_what_is_left_of_the_ranks_shards(read: Read) -> None:
    text = TITAN.replace("shard_degree = 32", "shard_degree = -1")
    scenario = read(text, "world_size=16", model=None).scenario
    assert scenario.cluster.world_size == 16
    assert scenario.schedule.options["shard_mesh_size"] == 8


def test_replicas_alone_are_ddp(read: Read) -> None:
    text = TITAN.replace("shard_degree = 32", "shard_degree = 1")
    scenario = read(text, model=None).scenario
    assert (scenario.schedule.name, scenario.cluster.world_size) == ("ddp", 2)
    assert scenario.schedule.options["bucket_cap_mb"] == 100


def test_batches_and_numerics_are_torchtitans(origins: Origins) -> None:
    found = origins(TITAN, model=None)
    place = f"{LINE} 10: training.global_batch_size / (1 · 64)"
    assert found["workload.micro_batches"] == (2, place)
    fields = ("dtype", "reduce_dtype", "storage_dtype", "optimizer")
    values = [found[f"numerics.{field}"] for field in fields]
    assert values == [
        ("bfloat16", "default of torchtitan"),
        ("float32", "default of torchtitan"),
        ("float32", "default of torchtitan"),
        ("adamw", "default of torchtitan"),
    ]


def test_compiled_blocks_and_a_checkpoint_that_stops_early_are_taken_over(read: Read) -> None:
    text = TITAN.replace("seq_len = 8192", "seq_len = 8192\ncompile = true")
    text = text.replace('mode = "full"', 'mode = "full"\nearly_stop = true')
    workload = read(text, model=None).scenario.workload
    assert (workload.compile, workload.early_stop) == (True, True)
    assert not read(TITAN, model=None).scenario.workload.early_stop


@pytest.mark.parametrize(
    ("flavor", "n_params"),
    [("8B", 8_030_261_248), ("70B", 70_553_706_496), ("405B", 405_853_388_800)],
)
def test_flavors_have_the_parameters_of_llama_3(flavor: str, n_params: int, read: Read) -> None:
    scenario = read(TITAN.replace('"8B"', f'"{flavor}"'), model=None).scenario
    assert workload_of(scenario).n_params == n_params
    assert flavor in FLAVORS


def test_another_model_may_be_given(read: Read) -> None:
    assert read(TITAN).scenario.workload.vocab == 32000


@pytest.mark.parametrize(
    ("policy", "value"), [("default", None), ("always", True), ("never", False)]
)
def test_reshard_after_forward_is_one_of_three_policies(
    policy: str, value: object, read: Read
) -> None:
    line = f'[parallelism]\nfsdp_reshard_after_forward = "{policy}"'
    options = read(TITAN.replace("[parallelism]", line), model=None).scenario.schedule.options
    assert options.get("reshard_after_forward") == value


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        (
            'mode = "full"',
            'mode = "selective"',
            "line 18: activation_checkpoint.mode is 'selective'",
        ),
        ('"8B"', '"9B"', "no flavor of llama3 at config.txt line 6: model.flavor: '9B': did you"),
        ('"llama3"', '"deepseek_v3"', "line 5: model.name is 'deepseek_v3': zerosim knows llama3"),
        ("seq_len", "sequence", "line 11: training.sequence: zerosim knows no such key"),
        ("seq_len = 8192", "compile = 1", "line 11: training.compile is 1: give a bool"),
        ("[job]", "[jobs]", "line 1: jobs: zerosim knows no such key: did you mean 'job'"),
        ("[parallelism]", "[parallelism]\ntensor_parallel_degree = 8", "line 14: .* is 8: zerosim"),
        ("= 128", "= 100", "line 10: .* is 100: torchtitan asks for a multiple of"),
        ("seq_len = 8192", "seq_len = ", r"line 11 at 'training.seq_len': Invalid value"),
        (
            "seq_len = 8192",
            "seq_len = 1\nseq_len = 2",
            "line 12 at 'training.seq_len': Cannot over",
        ),
    ],
)
def test_what_is_wrong_is_said_with_line_and_key(
    old: str, new: str, sentence: str, read: Read
) -> None:
    assert old in TITAN
    with pytest.raises(InputError, match=sentence):
        read(TITAN.replace(old, new), model=None)


def test_selective_by_op_keeps_every_second_product(read: Read) -> None:
    text = TITAN.replace('mode = "full"', 'mode = "selective"\nselective_ac_option = "op"')
    scenario = read(text, model=None).scenario
    assert scenario.workload.checkpointing == "ops"


def test_a_word_decides_what_torchtitan_keeps(read: Read) -> None:
    text = TITAN.replace('mode = "full"', 'mode = "selective"')
    scenario = read(text, "checkpointing=none", model=None).scenario
    assert scenario.workload.checkpointing == "none"
