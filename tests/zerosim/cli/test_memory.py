"""`zerosim memory`: its JSON, its text, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from time import process_time
from typing import Any

import orjson
import pytest

from tests.zerosim.models.test_extracted import RECORD
from zerosim.cli import run
from zerosim.kinds import MEMORY_KINDS

CONTRACT = ["convention", "states_bytes", "peak_bytes", "by_kind", "fits", "largest_model_params"]
GB = 10**9
Ask = Callable[[str], dict[str, Any]]


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str]) -> Ask:
    def asked(arguments: str) -> dict[str, Any]:
        assert run(["memory", *arguments.split(), "--json"]) == 0
        printed: dict[str, Any] = orjson.loads(capsys.readouterr().out)
        return printed

    return asked


def test_states_of_7_5_billion_on_64_ranks(ask: Ask) -> None:
    answer = ask("--params 7.5e9 --ranks 64")
    assert [*answer][:6] == CONTRACT
    assert answer["convention"] == "paper"
    assert (answer["stage"], answer["states_bytes"]) == (3, 1_875_000_000)
    assert answer["peak_bytes"] is None
    assert answer["by_kind"] == dict.fromkeys(MEMORY_KINDS) | {
        "parameters": 234_375_000,
        "gradients": 234_375_000,
        "optimizer": 1_406_250_000,
    }
    assert [s["states_bytes"] / GB for s in answer["stages"]] == [120, 31.40625, 16.640625, 1.875]


def test_the_largest_models_of_32_gb(ask: Ask) -> None:
    answer = ask("--params 7.5e9 --ranks 64 --memory 32e9")
    sizes = [s["largest_model_params"] for s in answer["stages"]]
    assert sizes == [2_000_000_000, 7_641_791_044, 14_422_535_211, 128_000_000_000]
    assert answer["largest_model_params"] == 128_000_000_000
    assert [s["fits"] for s in answer["stages"]] == [False, True, True, True]
    assert answer["stages"][1]["quoted_params"] == [
        {"value": 7_600_000_000, "text": "7.6", "source": "arXiv 1910.02054 table 2", "agrees": True},
        {"value": 7_500_000_000, "text": "7.5", "source": "arXiv 1910.02054 §5.4", "agrees": False},
    ]  # fmt: skip


def test_what_ran_stands_beside_what_the_states_allow(ask: Ask) -> None:
    stages = ask("--params 7.5e9 --ranks 64")["stages"]
    assert [[q["text"] for q in s["measured_params"]] for s in stages] == [
        ["1.3", "1.4"],
        ["6.2"],
        [],
        [],
    ]


@pytest.mark.parametrize("arguments", ["1.5e9", "7.5e9 --ranks 64", "1e12 --ranks 1024"])
def test_closed_forms_take_less_than_50_ms(
    arguments: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def taken() -> float:
        began = process_time()
        assert run(["memory", "--params", *arguments.split(), "--json"]) == 0
        return process_time() - began

    assert min(taken() for _ in range(3)) < 0.05
    assert capsys.readouterr().out.count("\n") == 3


def test_states_of_one_rank_are_24_gb_of_gpt2(ask: Ask) -> None:
    answer = ask("--params 1.5e9")
    assert answer["states_bytes"] == 24 * GB
    assert {s["states_bytes"] for s in answer["stages"]} == {24 * GB}


def test_sizes_are_read_as_people_write_them(ask: Ask) -> None:
    assert ask("--params 7B --memory 80GB") == ask("--params 7e9 --memory 80e9")
    assert ask("lesson-zero3 --memory 1GiB")["memory_bytes"] == 2**30


def test_a_configuration_is_asked_whether_it_fits(ask: Ask, tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    sizes = {"n_layer": 12, "n_embd": 768, "n_head": 12, "n_positions": 1024, "vocab_size": 50257}
    config.write_bytes(orjson.dumps({"model_type": "gpt2", **sizes}))
    answer = ask(f"--from {config} --set schedule=fsdp2 --ranks 4 --batch")
    assert (answer["n_params"], answer["n_ranks"], answer["fits"]) == (124_439_808, 4, True)
    assert answer["largest_micro_batch"]["value"] > 1
    origins = {origin["field"]: origin["origin"] for origin in answer["origins"]}
    assert origins["workload.layers"] == "config.json line 1: n_layer"


def test_ranks_that_read_the_same_share_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--set", "schedule=fsdp2", "--set", "world_size=5"]
    assert run(["memory", "lesson-zero3", *words]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("rank")]
    assert [line[:12].rstrip() for line in lines] == ["ranks 0-3", "rank 4"]
    assert run(["memory", "gpt2-1.5b", "--set", "schedule=deepspeed-2"]) == 0
    assert "\nrank" not in capsys.readouterr().out  # they differ by a few bytes


def test_a_trillion_on_1024_ranks(ask: Ask) -> None:
    answer = ask("--params 1e12 --ranks 1024 --stage 1 --convention megatron")
    assert answer["states_bytes"] == 6_011_718_750_000
    beside = {row["name"]: row["states_bytes"] for row in answer["conventions"]}
    assert beside["paper"][3] == 15_625_000_000
    assert beside["megatron"][1] == answer["states_bytes"]


def test_states_are_also_told_in_text(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["memory", "--params", "1e12", "--ranks", "64"]) == 0
    text = capsys.readouterr().out
    assert "convention  paper: 16-bit Adam, 2 + 2 + 12 = 16 B a parameter" in text
    assert "4187 GB Δ" in text
    assert "fsdp2-mixed" in text


def test_a_scenario_is_told_by_kind_with_what_fits(ask: Ask) -> None:
    answer = ask("lesson-zero3")
    layer = (768 * 768 + 768) * 4
    assert [*answer][:6] == CONTRACT
    assert answer["convention"] == "adam-fp32"
    assert answer["states_by_kind"] == {
        "parameters": layer,
        "gradients": layer,
        "optimizer": 2 * layer,
    }
    assert answer["states_bytes"] == 4 * layer == answer["stages"][3]["states_bytes"]
    assert sum(answer["by_kind"].values()) == answer["peak_bytes"]
    assert answer["fits"] is True
    assert answer["largest_model"]["value"] * 768 * 769 == answer["largest_model_params"]
    assert answer["largest_micro_batch"] is None
    assert [(row["first"], row["last"]) for row in answer["ranks"]] == [(0, 2)]


def test_a_scenario_can_be_put_on_other_ranks_and_memory(ask: Ask) -> None:
    answer = ask("gpt-7.5b --ranks 256 --memory 16e9 --batch")
    assert (answer["n_ranks"], answer["memory_bytes"]) == (256, 16 * GB)
    assert answer["largest_micro_batch"]["value"] >= 1


def test_what_is_reserved_stands_beside_what_is_allocated(ask: Ask) -> None:
    answer = ask("gpt2-1.5b")
    assert answer["peak_reserved_bytes"] > answer["peak_bytes"]
    assert answer["fits_by"] == "allocated"


def test_a_caching_allocator_decides_if_asked(ask: Ask) -> None:
    # DDP holds 52.16 GB, buckets included, and reserves 53.04.
    words = "gpt2-1.5b --set schedule=ddp --memory 52200000000"
    assert ask(words)["fits"] is True
    caching = ask(f"{words} --set allocator=caching")
    assert (caching["fits_by"], caching["fits"]) == ("reserved", False)
    assert caching["largest_model"]["value"] == 47


def test_an_extracted_model_has_the_layers_it_has(
    ask: Ask, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    net = tmp_path / "net.json"
    net.write_bytes(orjson.dumps(RECORD))
    answer = ask(f"lesson-zero3 --set file={net} --batch")
    assert (answer["largest_model"], answer["largest_model_params"]) == (None, None)
    assert answer["largest_micro_batch"]["value"] > 2
    assert run(["memory", "lesson-zero3", "--set", f"file={net}"]) == 0
    assert "unknown: this model has the layers it has" in capsys.readouterr().out


def test_a_full_device_is_said_to_give_back(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["memory", "gpt-1t", "--memory", "300000000000"]) == 0
    assert "free segments given back" in capsys.readouterr().out


def test_a_convention_sets_the_bytes_of_a_scenario(ask: Ask) -> None:
    plain, megatron = ask("gpt2-1.5b"), ask("gpt2-1.5b --convention megatron")
    assert (plain["convention"], megatron["convention"]) == ("paper", "megatron")
    assert megatron["states_by_kind"]["gradients"] == 2 * plain["states_by_kind"]["gradients"]


def test_simulate_says_its_convention(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", "lesson-zero3"]) == 0
    text = capsys.readouterr().out
    assert "adam-fp32: float32 Adam, 4 + 4 + 8 = 16 B a parameter" in text


def test_a_scenario_is_also_told_in_text(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["memory", "gpt2-1.5b", "--batch"]) == 0
    lines = {line.split("  ")[0]: line for line in capsys.readouterr().out.splitlines()}
    assert lines["fits"].endswith("36.0% of 80 GB (H100 SXM5 80GB), allocated")
    assert lines["largest model"].endswith("4.878 B (156 layers)")
    assert lines["largest micro-batch"].endswith("  23")
    assert lines["convention"].endswith("paper: 16-bit Adam, 2 + 2 + 12 = 16 B a parameter")


def test_what_does_not_fit_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["memory", "gpt2-1.5b", "--batch", "--memory", "1000"]) == 0
    text = capsys.readouterr().out
    assert "none: a single layer does not fit" in text
    assert "none: a batch of 1 does not fit" in text


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("", "a SCENARIO, --from FILE or --params N: give one of them"),
        ("lesson-zero3 --params 1e9", "a SCENARIO, --from FILE or --params N: give one of them"),
        ("--params 0", "--params is 0: give a whole number from 1"),
        ("--params 1.5", "--params is 1.5: give a whole number from 1"),
        ("--params nan", "--params is nan: give a whole number from 1"),
        ("--params 1e9 --memory 0", "--memory is 0: give a whole number from 1"),
        ("--params 1e9 --convention pape", "no byte convention 'pape': did you mean 'paper'?"),
        ("--params 1e9 --batch", "--set, --batch and --model-config change a scenario"),
        ("--params 7Q", "--params is 7Q: give a whole number from 1"),
        ("lesson-zero3 --model-config c.json", "--model-config c.json: it goes with --from FILE"),
        ("--params 1e9 --ranks 0", "Invalid value for '--ranks'"),
        ("lesson-zero3 --stage 2", "--stage goes with --params"),
        ("lesson-zero3 --memory -1", "--memory is -1: give a whole number from 1"),
    ],
)
def test_bad_input_is_one_sentence(
    arguments: str, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["memory", *arguments.split()]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(f"zerosim: {sentence}")
    assert printed.err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "remedy"),
    [
        ("llama2-70b", "activations are 84% of it: --set checkpointing=full, or a smaller micro_b"),
        (
            "llama2-70b --set checkpointing=full --set micro_batch=40",
            "activations are 71% of it: a smaller",
        ),
        ("llama2-70b --set schedule=ddp", "optimizer states are 67% of it: more ranks, or a"),
        ("lesson-zero3 --set schedule=deepspeed-2", "buckets are 99% of it: see the schedule's k"),
    ],
)
def test_what_does_not_fit_says_what_there_is_most_of(
    arguments: str, remedy: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["memory", *arguments.split()]) == 0
    line = next(x for x in capsys.readouterr().out.splitlines() if x.startswith("most"))
    assert line.split(maxsplit=1)[1].startswith(remedy)


def test_a_steady_step_that_holds_more_than_the_first_is_what_counts(ask: Ask) -> None:
    # DeepSpeed drops each module in step 1, and keeps all up to its reuse distance from step 2 on.
    words = "lesson-zero3 --set schedule=deepspeed-3"
    answer = ask(words)
    assert answer["peak_at"]["step"] == 2
    weights, biases = 3 * 768 * 768 * 4, 3 * 768 * 4
    assert (
        answer["by_kind"]["gathered"] == 2 * weights + biases
    )  # one flat buffer, copied out of it
    assert answer == ask(f"{words} --set steps=2")
