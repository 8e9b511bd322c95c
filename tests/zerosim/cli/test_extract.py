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
    assert said.err.startswith(f"zerosim: factory '{MODELS}:returns_text' returned str: return")
    assert len(said.err.splitlines()) == 1
    assert not out.exists()


@pytest.mark.parametrize(
    ("place", "sentence"),
    [
        ("absent/net.json", "there is no directory '{}/absent': make it first"),
        (".", "is a directory: name a file"),
    ],
)
def test_a_place_that_cannot_be_written_is_refused_before_anything_is_extracted(
    place: str, sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["extract", "absent:factory", "-o", str(tmp_path / place)]) == 2
    assert sentence.format(tmp_path) in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_threads_that_never_end_do_not_keep_the_answer_back(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    code = "import threading\nfrom torch import nn\nthreading.Thread(target=threading.Event().wait)"
    factory = "def build():\n    return nn.Sequential(nn.Embedding(9, 4), nn.Linear(4, 4))\n"
    (tmp_path / "net.py").write_text(f"{code}.start()\n{factory}")
    out = tmp_path / "net.json"
    assert run(["extract", f"{tmp_path / 'net.py'}:build", "--seq", "8", "-o", str(out)]) == 0
    assert {p.name for p in tmp_path.iterdir()} - {"__pycache__"} == {"net.py", "net.json"}


def test_a_process_that_is_stopped_says_by_what(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch")
    (tmp_path / "net.py").write_text("import os\nos.kill(os.getpid(), 9)\n")
    assert run(["extract", f"{tmp_path / 'net.py'}:build"]) == 1
    assert "was stopped by SIGKILL: mend it" in capsys.readouterr().err
