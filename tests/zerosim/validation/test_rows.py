"""Rows of measured steps: read, completed by documented defaults, or named and left out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from zerosim.errors import MeasurementError
from zerosim.validation.cells import Cells, read_cells
from zerosim.validation.rows import StepRow, read_steps, step_rows


def test_a_row_is_read_as_it_stands(row: Callable[..., StepRow]) -> None:
    found = row()
    assert (found.n_gpus, found.micro_batch, found.grad_accum) == (16, 4, 2)
    assert found.sizes.params == 6658859008
    assert found.measured_s == 4.5
    assert found.tokens == 4 * 2 * 2048
    assert found.defaults == ()


def test_a_blank_that_may_be_filled_is_filled_and_counted(row: Callable[..., StepRow]) -> None:
    found = row(gpus_per_node="", split="", grad_accum="")
    assert [(d.column, d.value) for d in found.defaults] == [
        ("gpus_per_node", "8"),
        ("split", "test"),
    ]
    assert found.grad_accum == 1


@pytest.mark.parametrize(
    ("given", "stage"),
    [
        ({"framework": "PyTorch FSDP1"}, 3),
        ({"framework": "PyTorch FSDP1", "sharding_raw": "SHARD_GRAD_OP"}, 2),
        ({"framework": "Megatron + DeepSpeed ZeRO-2"}, 2),
        ({"framework": "llm.c", "sharding_raw": "ZeRO-1 (-z 1)"}, 1),
        ({"framework": "PyTorch DDP"}, 0),
    ],
)
def test_a_stage_that_is_blank_is_what_its_words_mean(
    row: Callable[..., StepRow], given: dict[str, str], stage: int
) -> None:
    found = row(zero_stage="", shard_group="", **given)
    assert found.zero_stage == stage
    assert [d.column for d in found.defaults] == ["zero_stage"]


def test_sizes_that_are_blank_are_those_of_a_model_that_is_known(
    row: Callable[..., StepRow],
) -> None:
    found = row(model_id="mpt-7b", hidden="", heads="", vocab="", params="")
    assert (found.sizes.hidden, found.sizes.heads, found.sizes.vocab) == (4096, 32, 50368)
    assert [d.column for d in found.defaults] == ["params", "hidden", "heads", "vocab"]


def test_accumulation_and_micro_batch_follow_from_the_global_batch(
    row: Callable[..., StepRow],
) -> None:
    assert row(grad_accum="", global_batch="128").grad_accum == 2
    assert row(micro_batch="", global_batch="128").micro_batch == 4


def test_a_step_may_be_given_as_tokens_a_second(row: Callable[..., StepRow]) -> None:
    assert row(step_time_s="", tok_s_gpu="4096").measured_s == 4.0


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"n_gpus": "many"}, "n_gpus is 'many': give a finite number"),
        ({"n_gpus": "1.5"}, "n_gpus is '1.5': give a whole number, 1 or more"),
        ({"step_time_s": "-1"}, "step_time_s is '-1': give a number above 0"),
        ({"step_time_s": "nan"}, "step_time_s is 'nan': give a finite number"),
        ({"step_time_s": ""}, "step_time_s and tok_s_gpu are blank"),
        ({"params": ""}, "params is blank"),
        ({"hidden": ""}, "hidden is blank"),
        ({"micro_batch": ""}, "micro_batch is blank"),
        ({"zero_stage": "", "framework": "Composer"}, "zero_stage is blank: give 0, 1, 2 or 3"),
        ({"step_time_s": "1,27"}, "step_time_s is '1,27': give a finite number"),
        ({"step_time_s": "1e6"}, "step_time_s is '1e6': give a number above 0, at most 86400"),
        ({"step_time_s": "", "tok_s_gpu": "0.1"}, "16384 tokens a rank then take over a day"),
        ({"zero_stage": "4"}, "zero_stage is '4': give a whole number, 0 to 3"),
        ({"shard_group": "17"}, "shard_group is '17': give a whole number, 1 to 16"),
        ({"gpus_per_node": "1e9"}, "gpus_per_node is '1e9': give a whole number, 1 to 1024"),
        ({"tp": "2"}, "tp is '2': only data parallelism is simulated"),
        ({"offload": "optimizer"}, "offload is 'optimizer': offload is not simulated"),
        ({"global_batch": "100"}, "global_batch is '100': 4 x 2 x 16 GPUs is another"),
    ],
)
def test_a_row_that_cannot_be_completed_is_named_with_its_cell(
    cells: Callable[..., Cells], given: dict[str, str], said: str
) -> None:
    rows, left_out = step_rows([cells(**given)])
    assert rows == ()
    assert left_out[0].sentence.startswith("row R1: ")
    assert said in left_out[0].sentence
    assert left_out[0].wanted


def test_rows_that_are_no_test_are_left_out_without_ado(cells: Callable[..., Cells]) -> None:
    rows, left_out = step_rows(
        [cells(row_id="A", split="extra"), cells(row_id="B", simulatable="no"), cells(row_id="C")]
    )
    assert [row.row_id for row in rows] == ["C"]
    assert [(left.row_id, left.wanted) for left in left_out] == [("A", False), ("B", False)]


def test_a_file_may_have_blank_lines_odd_bytes_at_its_start_and_no_ids(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(b"\xef\xbb\xbfn_gpus,seq_len\r\n8,1024\r\n,\r\n16,2048\r\n")
    found = read_cells(path)
    assert [cells.row_id for cells in found] == ["line 2", "line 4"]
    assert found[1].whole("n_gpus") == 16


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "has no column 'n_gpus'"),
        (b"row_id,seq_len\n", "has no column 'n_gpus'"),
        (b"n_gpus,seq_len,n_gpus\n", "has the column 'n_gpus' twice"),
        (b"n_gpus,seq_len\n\xff\xfe,1\n", "is no CSV in UTF-8"),
    ],
)
def test_a_file_that_is_no_table_of_steps_is_refused(
    tmp_path: Path, content: bytes, said: str
) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(content)
    with pytest.raises(MeasurementError, match=said):
        read_steps(path)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MeasurementError, match="No such file"):
        read_steps(tmp_path / "none.csv")


def test_a_comma_stands_between_thousands(row: Callable[..., StepRow]) -> None:
    assert row(params="6,658,859,008").sizes.params == 6658859008


@pytest.mark.parametrize("name", ["/dev/zero", "/dev/null"])
def test_what_is_no_file_is_refused_unread(name: str) -> None:
    with pytest.raises(MeasurementError, match="is not a file: give a CSV of rows"):
        read_cells(Path(name))


def test_a_header_alone_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "steps.csv"
    path.write_text("n_gpus,seq_len\n")
    with pytest.raises(MeasurementError, match="has no row below its header"):
        read_cells(path, columns=("n_gpus",))
