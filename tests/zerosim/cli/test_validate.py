"""`zerosim validate`: rows from a file, scored; what is left out is said."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from zerosim.cli import run
from zerosim.validation.carried_steps import carried_steps

HEADER = (
    "row_id,source_id,split,gpu,n_gpus,framework,zero_stage,params,layers,hidden,heads,ffn,vocab,"
    "seq_len,micro_batch,grad_accum,step_time_s\n"
)
SIZES = "124439808,12,768,12,3072,50257,1024,8,1"


@pytest.fixture
def steps(tmp_path: Path) -> Path:
    path = tmp_path / "steps.csv"
    rows = (
        f"A,mine,calib,A100,8,PyTorch FSDP,3,{SIZES},0.1",
        f"B,mine,test,A100,16,PyTorch FSDP,3,{SIZES},0.11",
        f"C,mine,test,A100,16,PyTorch FSDP,3,{SIZES},soon",
        f"D,mine,extra,A100,16,PyTorch FSDP,3,{SIZES},0.11",
    )
    path.write_text(HEADER + "\n".join(rows) + "\n")
    return path


def test_every_row_stands_beside_its_prediction(
    steps: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["validate", "--steps", str(steps), "--json"]) == 0
    found = orjson.loads(capsys.readouterr().out)
    rows = [(r["row_id"], r["split"], r["source_id"], r["measured_s"]) for r in found["rows"]]
    assert rows == [("A", "calib", "mine", 0.1), ("B", "test", "mine", 0.11)]
    assert all(r["predicted_s"] > 0 for r in found["rows"])
    assert [(left["row_id"], left["wanted"]) for left in found["left_out"]] == [
        ("C", True),
        ("D", False),
    ]
    assert found["scores"]["suites"]["test"]["errors"]["n_rows"] == 1


def test_people_read_a_table_and_one_sentence_a_reason(
    steps: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["validate", "--steps", str(steps)]) == 0
    said = capsys.readouterr()
    assert "scored     2 rows" in said.out
    assert "worst first" in said.out
    assert said.err == "row C: step_time_s is 'soon': give a finite number (mine)\n"


def test_a_file_that_is_not_there_is_bad_input(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["validate", "--steps", "nowhere.csv"]) == 2
    assert "cannot read 'nowhere.csv'" in capsys.readouterr().err


def test_the_scoreboard_is_stored_as_one_document_the_same_each_time(
    steps: Path, tmp_path: Path
) -> None:
    one, two = tmp_path / "one.json", tmp_path / "two.json"
    assert run(["validate", "--steps", str(steps), "--publish", str(one)]) == 0
    assert run(["validate", "--steps", str(steps), "--publish", str(two)]) == 0
    assert one.read_bytes() == two.read_bytes()
    found = orjson.loads(one.read_bytes())
    assert [row["row_id"] for row in found["steps"]["rows"]] == ["A", "B"]
    assert found["steps"]["rows"][0]["scenario"]["cluster"]["name"] == "dgx-a100"
    assert found["collectives"]["rows"]


def test_predicted_against_measured_is_drawn(steps: Path, tmp_path: Path) -> None:
    drawn = tmp_path / "steps.svg"
    assert run(["validate", "--steps", str(steps), "--plot", str(drawn)]) == 0
    text = drawn.read_text()
    assert "<title>A mine (calib): " in text
    assert "<title>B mine (test): " in text


def test_a_place_that_cannot_be_written_is_refused_before_anything_is_simulated(
    steps: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["validate", "--steps", str(steps), "--publish", str(tmp_path)]) == 2
    assert "is a directory: name a file" in capsys.readouterr().err


MEMORY = (
    "row_id,source_id,split,framework,zero_stage,shard_group,gpu,gpu_mem_gb,n_gpus,model_id,seq_len,"
    "micro_batch,act_ckpt,mem_gib,mem_kind,locator,notes\n"
    "A,mine,test,FSDP2,3,8,A100,80,8,llama2-7b,2048,1,full,20,max allocated,here,\n"
    "B,mine,test,FSDP2,3,8,A100,80,8,llama2-7b,2048,1,full,,fit / OOM,here,OOM at 999\n"
    "C,mine,test,FSDP2,3,8,A100,80,8,llama2-7b,2048,1,full,20,a feeling,here,\n"
    "D,mine,test,FSDP2,,,V100,32,,,,,,,largest model that fits,DDP,1.4B\n"
)


@pytest.fixture
def memory(tmp_path: Path) -> Path:
    path = tmp_path / "memory.csv"
    path.write_text(MEMORY)
    return path


def test_measured_memory_stands_beside_what_is_predicted(
    memory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["validate", "--memory", str(memory), "--json"]) == 0
    found = orjson.loads(capsys.readouterr().out)["memory"]
    peak, largest = found["rows"]
    assert (peak["row_id"], peak["measured_bytes"], peak["measured_params"]) == (
        "A",
        20 * 2**30,
        None,
    )
    assert peak["predicted_bytes"] > 10**10
    assert {"column": "grad_accum", "value": "1", "why": "not stated"} in peak["defaults"]
    assert (largest["predicted_bytes"], largest["predicted_params"]) == (None, 2_000_000_000)
    assert [(one["micro_batch"], one["fits"], one["hit"]) for one in found["fits"]] == [
        (999, False, True)
    ]
    assert [left["row_id"] for left in found["left_out"]] == ["C"]
    test = found["scores"]["splits"]["test"]
    assert (test["errors"]["n_rows"], test["hits"], test["claims"]) == (2, 1, 1)


def test_measured_memory_is_a_table_by_split_and_source(
    memory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["validate", "--memory", str(memory)]) == 0
    said = capsys.readouterr()
    assert "2 figures, 1 claims of what fits" in said.out
    assert "test   mine" in said.out
    assert "+35.7%  2 B  1.4 B  test  mine  largest" in said.out
    assert "row C: mem_kind is 'a feeling'" in said.err


def test_steps_and_memory_are_scored_together(
    steps: Path, memory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["validate", "--steps", str(steps), "--memory", str(memory), "--json"]
    assert run(words) == 0
    found = orjson.loads(capsys.readouterr().out)
    assert {"rows", "scores", "memory"} <= set(found)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--memory", "nowhere.csv"], "cannot read 'nowhere.csv'"),
        (["--memory", "FILE", "--out", "x"], "--out x without --fit"),
    ],
)
def test_what_memory_cannot_be_asked_is_one_sentence(
    arguments: list[str], sentence: str, memory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [str(memory) if word == "FILE" else word for word in arguments]
    assert run(["validate", *words]) == 2
    assert sentence in capsys.readouterr().err


def test_a_table_without_kinds_of_memory_is_refused(
    steps: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["validate", "--memory", str(steps)]) == 2
    assert "has no column 'mem_kind'" in capsys.readouterr().err


def test_what_zerosim_carries_is_scored_without_a_file(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    few = [cells for cells in carried_steps() if cells.text("source_id") == "atorch"]
    monkeypatch.setattr("zerosim.cli.validate.carried_steps", lambda: few)
    assert run(["validate", "--json"]) == 0
    found = orjson.loads(capsys.readouterr().out)
    assert {row["source_id"] for row in found["rows"]} == {"atorch"}
    assert found["collectives"]["rows"][0]["measured_s"] > 0
    assert {score["split"] for score in found["collectives"]["scores"]["series"]} == {
        "calib",
        "test",
    }
    assert found["memory"]["rows"]


def test_collectives_are_a_line_a_series(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "collectives.csv"
    header = "series_id,split,hardware,gpu,collective,ranks,nodes,bytes,time_us"
    rows = (
        "mine,test,8x A100,A100,all_gather,8,1,67108864,300",
        "mine,test,abacus,,all_gather,8,1,99,9",
        "mine,test,8x A100,A100,all_gather,8,1,67108864,",
    )
    path.write_text("\n".join((header, *rows)) + "\n")
    assert run(["validate", "--collectives", str(path)]) == 0
    said = capsys.readouterr()
    assert "collectives  1 rows of measured collectives" in said.out
    assert "mine    test   1" in said.out
    assert "collective collectives.csv line 3: its GPU is not stated" in said.err
    assert "time_us is blank: fill it in" in said.err


@pytest.mark.parametrize("other", ["--collectives", "--memory"])
def test_nothing_is_written_where_another_file_cannot_be_read(
    other: str, steps: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    published = tmp_path / "scores.json"
    words = ["validate", "--steps", str(steps), other, "absent.csv", "--publish", str(published)]
    assert run(words) == 2
    assert "cannot read 'absent.csv'" in capsys.readouterr().err
    assert not published.exists()


@pytest.mark.parametrize("words", [["--constant", "launch_s"], ["--fit-on", "mosaicml"]])
def test_what_is_for_a_fit_is_refused_without_one(
    words: list[str], steps: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["validate", "--steps", str(steps), *words]) == 2
    assert "are for a fit: give --fit too" in capsys.readouterr().err
