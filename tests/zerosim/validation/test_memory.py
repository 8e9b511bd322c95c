"""Measured memory: which figure of ours a row is held against, what fills its blanks, what is left out."""

from __future__ import annotations

import math
from typing import Any

import pytest

from zerosim.memory.overheads import CONTEXT_BYTES, cublas_bytes, nccl_bytes
from zerosim.validation.cells import Cells
from zerosim.validation.memory import MemoryScore, memory_scores

GIB = 2**30
ROW = {
    "row_id": "R1",
    "source_id": "one",
    "split": "test",
    "framework": "PyTorch FSDP2",
    "sharding": "fully_shard",
    "zero_stage": "3",
    "shard_group": "8",
    "gpu": "A100-SXM-80GB",
    "gpu_mem_gb": "80",
    "n_gpus": "8",
    "model_id": "llama2-7b",
    "seq_len": "2048",
    "micro_batch": "1",
    "grad_accum": "1",
    "precision": "bf16",
    "act_ckpt": "full",
    "compile": "no",
    "offload": "no",
    "mem_gib": "20",
    "mem_kind": "max allocated",
}


def cells(**changes: str) -> Cells:
    filled = {name: text for name, text in (ROW | changes).items() if text}
    return Cells(filled["row_id"], filled)


def score(**changes: str) -> MemoryScore:
    found = memory_scores([cells(**changes)])
    assert found.left_out == ()
    return found.rows[0]


def sentence(**changes: str) -> str:
    found = memory_scores([cells(**changes)])
    assert (found.rows, found.fits) == ((), ())
    return found.left_out[0].sentence


def test_torch_s_maximum_is_held_against_what_is_allocated() -> None:
    found = score()
    assert (found.figure, found.measured) == ("allocated", 20 * GIB)
    # 12 bytes of states a parameter over 8 ranks, and more.
    assert 12 * 6_738_415_616 // 8 < found.predicted < 30 * GIB
    assert found.ln_ratio == math.log(found.predicted / (20 * GIB))


def test_nvidia_smi_adds_the_context_and_nccl_to_what_is_reserved() -> None:
    reserved = score(mem_kind="peak reserved")
    seen = score(mem_kind="nvidia-smi GB (rounded)")
    assert (reserved.figure, seen.figure) == ("reserved", "device")
    assert seen.predicted - reserved.predicted == CONTEXT_BYTES + nccl_bytes(1)
    assert reserved.predicted > score().predicted


@pytest.mark.parametrize(
    ("device", "mebibytes"), [("A100-SXM-80GB", 16.25), ("H100-80GB", 64.0), ("V100", 16.25)]
)
def test_cublas_has_a_scratch_for_each_of_two_threads(device: str, mebibytes: float) -> None:
    assert cublas_bytes(device) == mebibytes * 2**20


def test_one_communicator_has_nccl_s_220_mebibytes() -> None:
    assert nccl_bytes(1) == 220.5 * 2**20


@pytest.mark.parametrize(
    ("stage", "gigabytes"), [("0", 120.0), ("1", 31.40625), ("2", 16.640625), ("3", 1.875)]
)
def test_states_are_the_closed_form_of_the_paper(stage: str, gigabytes: float) -> None:
    found = score(
        model_id="7.5B",
        params="7500000000",
        n_gpus="64",
        zero_stage=stage,
        mem_kind="model states only, analytic",
        mem_unit_in_source="GB (1e9)",
        mem_gib="120",
    )
    assert (found.predicted, found.measured) == (gigabytes * 10**9, 120 * 10**9)


def test_float32_states_are_16_bytes_and_12_with_the_optimizer_over_two() -> None:
    kind = "allocated before and after optimizer step (not peak)"
    words = {"model_id": "damek-xl", "precision": "fp32", "n_gpus": "2", "mem_kind": kind}
    assert score(**words, zero_stage="0").predicted == 16 * 1_998_235_200
    assert score(**words, zero_stage="1").predicted == 12 * 1_998_235_200


def test_the_estimate_of_zero_2_is_the_code_s_or_the_one_its_docs_print() -> None:
    words = {
        "params": "2851000000",
        "zero_stage": "2",
        "mem_kind": "estimator, model states",
        "mem_gib": "15.93",
    }
    assert round(score(**words).predicted / GIB, 2) == 11.28
    assert round(score(**words, source="docs/memory.rst").predicted / GIB, 2) == 15.93


def test_the_estimate_of_zero_3_needs_the_largest_layer() -> None:
    words = {"params": "2851000000", "mem_kind": "estimator", "mem_gib": "6.1"}
    assert round(score(**words, largest_layer="32000000").predicted / GIB, 2) == 6.09
    assert "depends on the largest layer" in sentence(**words)


def test_the_largest_model_is_counted_in_parameters() -> None:
    found = score(
        mem_kind="largest model that fits",
        locator="ZeRO-2 no model parallelism, 128 GPUs",
        gpu_mem_gb="32",
        notes="13B trains",
    )
    # 32 GB / (2 + 14 / 128) bytes.
    assert (found.figure, found.predicted, found.measured) == (
        "largest",
        15_170_370_370,
        13_000_000_000,
    )


@pytest.mark.parametrize(
    ("notes", "claims"),
    [
        ("OOM", [(4, False)]),
        ("OOM at batch 1", [(1, False)]),
        ("max batch 5", [(5, True), (6, False)]),
        ("OOM at 9, 8 fits with allocation retries", [(8, True), (9, False)]),
        ("OOM on 64 A100-80 (mbs 1 fits)", [(1, True), (4, False)]),
    ],
)
def test_what_fits_is_read_from_the_notes(notes: str, claims: list[tuple[int, bool]]) -> None:
    found = memory_scores([cells(mem_kind="fit / OOM", mem_gib="", micro_batch="4", notes=notes)])
    assert [(one.micro_batch, one.fits) for one in found.fits] == claims


def test_a_claim_is_a_hit_if_the_prediction_says_the_same() -> None:
    row = cells(mem_kind="fit / OOM", mem_gib="", micro_batch="1", notes="OOM at 512, 1 fits")
    fits, out = memory_scores([row]).fits
    assert (fits.fits, fits.hit) == (True, True)
    assert fits.limit_bytes == int(80 * 0.99 * GIB)
    assert (out.fits, out.hit) == (False, True)
    assert out.predicted_bytes > out.limit_bytes
    split = memory_scores([row]).splits[1]
    assert (split.split, split.hits, split.claims, split.errors) == ("test", 2, 2, None)


def test_blanks_are_filled_counted_and_listed() -> None:
    found = memory_scores([cells(grad_accum="", gpu="TITAN RTX-24GB")])
    columns = [column for column, _, _ in found.rows[0].defaults]
    assert {"grad_accum", "gpu", "foreach", "attention", "optimizer"} <= set(columns)
    assert dict(found.filled)["grad_accum"] == 1


def test_an_unknown_gpt_is_known_by_its_parameters() -> None:
    # 12 layers of 768, 1024 positions, a vocabulary of 5000, tied.
    params = 12 * (12 * 768**2 + 13 * 768) + (5000 + 1024 + 2) * 768
    words = {"layers": "12", "hidden": "768", "heads": "12", "seq_len": "1024"}
    found = score(model_id="mine", params=str(params), **words)
    assert ("vocab", "5000", "'mine' is not known; a GPT of its sizes has as many parameters") in (
        found.defaults
    )
    assert "no GPT has its parameters" in sentence(model_id="mine", params="90000001", **words)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"mem_kind": "a feeling"}, "mem_kind is 'a feeling': no figure of ours is that"),
        ({"mem_kind": ""}, "mem_kind is '': no figure of ours is that"),
        ({"mem_gib": ""}, "mem_gib is blank: nothing was measured"),
        ({"mem_gib": "-1"}, "mem_gib is '-1': give a number above 0"),
        ({"seq_len": ""}, "seq_len is blank: give a whole number"),
        ({"model_id": "mine"}, "model_id is 'mine', which is not known, and params is blank"),
        ({"offload": "params to CPU"}, "offload is not simulated"),
        (
            {"n_gpus": "64"},
            "64 GPUs shard over 8, which is tensor, pipeline or context parallelism",
        ),
        ({"cp": "2"}, "only data parallelism is simulated"),
        ({"framework": "Horovod"}, "no schedule does what it does"),
        ({"split": "exclude"}, "split is 'exclude'"),
        ({"mem_kind": "largest model that fits"}, "say how many parameters trained"),
        ({"mem_kind": "fit / OOM", "notes": "who knows"}, "say what fits or is OOM"),
        ({"mem_kind": "fit / OOM", "notes": "OOM", "gpu_mem_gb": ""}, "gpu_mem_gb is blank"),
    ],
)
def test_what_cannot_be_compared_is_named_with_the_reason(
    changes: dict[str, Any], why: str
) -> None:
    assert sentence(**changes).startswith("row R1: ")
    assert why in sentence(**changes)


def test_splits_stay_apart_and_sources_weigh_the_same() -> None:
    rows = [
        cells(row_id="a", mem_gib="10"),
        cells(row_id="b", mem_gib="10"),
        cells(row_id="c", source_id="two", mem_gib="20"),
        cells(row_id="d", split="calib", mem_gib="1"),
    ]
    found = memory_scores(rows)
    calib, test = found.splits
    assert (calib.split, test.split) == ("calib", "test")
    assert test.errors is not None
    assert (test.errors.n_rows, test.errors.n_sources) == (3, 2)
    far, near = abs(found.rows[0].ln_ratio), abs(found.rows[2].ln_ratio)
    assert test.errors.mean == pytest.approx((far + near) / 2)
    assert [source for source, _ in test.sources] == ["one", "two"]


def test_what_a_source_s_script_says_is_used_and_listed() -> None:
    found = score(
        source_id="torchtitan-pr165", framework="torchtitan FSDP2", mem_gib="23.92", compile="no"
    )
    # Printed as a percent of 95.0396 GiB.
    assert found.measured == round(22.7335 * GIB)
    assert any("percent of 95.0396 GiB" in why for _, _, why in found.defaults)


def test_a_row_that_is_already_as_its_source_has_it_is_not_changed_again() -> None:
    found = score(source_id="torchtitan-pr165", mem_gib="22.7", compile="no", corrected="yes")
    assert found.measured == round(22.7 * GIB)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"mem_gib": "1e300"}, "mem_gib is '1e300': give a number above 0, at most 1e+06"),
        ({"mem_gib": "81"}, "mem_gib is '81': its GPU has 80 GB in all; mend one of them"),
        ({"gpu_mem_gb": "1e300"}, "gpu_mem_gb is '1e300': give a number above 0, at most 1e+06"),
        (
            {"mem_kind": "largest model", "notes": "9" * 400 + "B"},
            f"notes is '{'9' * 40}…': give a model above 0, at most 1e+06 B",
        ),
    ],
)
def test_memory_that_no_device_has_is_left_out(given: dict[str, str], sentence: str) -> None:
    (left,) = memory_scores([cells(**given)]).left_out
    assert left.sentence == f"row R1: {sentence}"
