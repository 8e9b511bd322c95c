"""`zerosim extract` as other programs see it; the work is done in a fresh process with torch."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from zerosim.cli import run

MODELS = Path(__file__).parents[2] / "runtime" / "extraction" / "user_models.py"


def test_extract_answers_with_facts_and_the_record_and_stores_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch")
    out = tmp_path / "net.json"
    assert run(["extract", f"{MODELS}:small_gpt", "--seq", "32", "-o", str(out), "--json"]) == 0
    answer = orjson.loads(capsys.readouterr().out)
    assert answer.keys() == {
        *["name", "n_params", "trainable_params", "tensors", "tied_tensors", "buffers_bytes"],
        *["unused", "frozen", "units", "layers", "batch", "scales", "dtype", "tokens"],
        *["forward_flops", "backward_flops", "model_flops", "model_flops_causal"],
        *["activations_bytes", "logits_bytes", "workload"],
    }
    assert answer["units"] == ["root", "0", "1", "2"]
    assert answer["forward_flops"] + answer["backward_flops"] == answer["model_flops"]
    assert orjson.loads(out.read_bytes()) == answer["workload"]
    assert run(["simulate", "lesson-zero3", "--set", f"workload.file={out}", "--json"]) == 0
    order = orjson.loads(capsys.readouterr().out)["order"]
    assert order.startswith("AGroot Femb AG0 F0 AG1 F1 AG2 F2 Fhead Bhead AG2 B2 RS2")


def test_bad_input_is_one_sentence_and_nothing_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch")
    out = tmp_path / "net.json"
    assert run(["extract", f"{MODELS}:returns_text", "-o", str(out)]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith(f"zerosim: factory '{MODELS}:returns_text' returned a str: return")
    assert len(said.err.splitlines()) == 1
    assert not out.exists()
