"""`zerosim validate`: rows from a file, scored; what is left out is said."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from zerosim.cli import run

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


def test_a_place_that_cannot_be_written_is_refused_before_anything_is_simulated(
    steps: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["validate", "--steps", str(steps), "--publish", str(tmp_path)]) == 2
    assert "is a directory: name a file" in capsys.readouterr().err
