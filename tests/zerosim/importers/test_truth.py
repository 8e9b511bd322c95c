"""Real traces and quirks by hand: figures written out, so that a wrong truth file would be noticed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.zerosim.importers.told import FOLDERS
from zerosim.analysis.summary import summarize
from zerosim.importers import read

GOLDEN = Path(__file__).parents[2] / "golden" / "gloo_ddp"


@pytest.fixture
def fsdp(shared: Path) -> dict[str, Any]:
    """The figures of a folder that tells of one run in three formats."""
    return summarize(read([shared / FOLDERS["gloo_fsdp2_rs"]]))


def test_one_h100_rank_by_hand(shared: Path) -> None:
    run = summarize(read([shared / FOLDERS["mn1211"]]))
    rank1 = run["ranks"][1]
    assert rank1["whole"]["compute_ns"] == 131_026_250
    assert rank1["whole"]["exposed_ns"] == 17_483_315
    assert rank1["by_step"][3]["exposed_ns"] == 3_545_677
    assert (run["world_size"], run["step_ns"]) == (8, 47_103_662)
    assert run["quality"]["events"] == 27_408 + 27_146 + 26_892 + 27_878


def test_gloo_fsdp_is_gathers_and_reduce_scatters_not_all_reduces(fsdp: dict[str, Any]) -> None:
    for entry in fsdp["ranks"]:
        assert [(c["kind"], c["count"], c["elements"]) for c in entry["collectives"]] == [
            ("all_gather", 24, 1_342_728),
            ("reduce_scatter", 12, 671_364),
        ]


def test_the_order_of_gloo_fsdp_is_read_from_its_marks(fsdp: dict[str, Any]) -> None:
    order = fsdp["order"].split()
    gathers = [word for word in order if word.startswith("AG")]
    reductions = [word for word in order if word.startswith("RS")]
    assert gathers == [
        *("AGroot", "AGblocks.0", "AGblocks.1", "AGblocks.2"),
        *("AGroot", "AGblocks.2", "AGblocks.1", "AGblocks.0"),
    ]
    assert sorted(reductions) == ["RSblocks.0", "RSblocks.1", "RSblocks.2", "RSroot"]
    assert order[-1] == "OPT"


def test_the_two_ranks_kept_beside_the_tests_give_their_figures() -> None:
    """From the same source as the shared ones, so that a bare checkout tests a real trace too."""
    run = summarize(read([GOLDEN]))
    assert run["world_size"] == 4
    assert [entry["whole"] for entry in run["ranks"]] == [
        {"compute_ns": 109_014_426, "comm_ns": 253_021_905, "mem_ns": 0, "exposed_ns": 237_255_260},
        {"compute_ns": 263_698_988, "comm_ns": 77_225_431, "mem_ns": 0, "exposed_ns": 69_213_930},
    ]
    assert run["ranks"][0]["collectives"] == [
        {
            "kind": "all_reduce",
            "dtype": "float32",
            "group_size": 4,
            "count": 9,
            "elements": 670_782,
            "nbytes": 2_683_128,
        }
    ]
    assert [entry["peak_bytes"] for entry in run["ranks"]] == [1_190_840, 1_335_216]
    assert run["skew"]["n"] == 9
    assert run["order"].split() == ["F", "B", "gloo:all_reduce"] + ["B", "gloo:all_reduce"] * 2 + [
        "OPT"
    ]


QUIRKS_THAT_READ_AS_THE_BASE = (
    "00_base.json",
    "04_gzip_two_members.json.gz",
    "05_plain_named_gz.json.gz",
    "06_gz_named_json.json",
    "07_backslash_paths.json",
    "08_control_char.json",
    "10_unescaped_quotes_newline.json",
    "11_bare_NA_nan.json",
    "12_trailing_comma.json",
    "14_array_unclosed.json",
    "15_no_rank.json",
    "20_epoch_us_ints.json",
    "26_string_ts.json",
    "31_nccl_kernel_without_metadata.json",
    "32_spillover_kernel.json",
    "34_cuda_sync_and_gpu_annotations.json",
    "36_uint64_ids.json",
    "37_string_pids.json",
    "42_device_not_rank.json",
    "43_memory_events.json",
    "46_bom.json",
)


@pytest.mark.parametrize("name", QUIRKS_THAT_READ_AS_THE_BASE)
def test_a_quirk_does_not_change_what_the_steps_took(shared: Path, name: str) -> None:
    entry = summarize(read([shared / "quirks" / name]))["ranks"][0]
    assert [(s["step"], s["step_ns"]) for s in entry["steps"]] == [(5, 1_000_000), (6, 1_000_000)]
    assert [tuple(s.values()) for s in entry["by_step"]] == [
        (5, 400_000, 500_000, 300_000),
        (6, 400_000, 500_000, 300_000),
    ]


def test_a_trace_without_a_device_has_unknown_figures_not_zeros(shared: Path) -> None:
    run = summarize(read([shared / "quirks" / "19_cpu_only.json"]))
    assert set(run["ranks"][0]["whole"].values()) == {None}
    assert run["exposed_ns"] is None
    assert "has no GPU events" in run["quality"]["warnings"][0]
    assert [c["count"] for c in run["ranks"][0]["collectives"]] == [2, 2]


def test_a_cut_last_step_is_not_the_one_that_counts(shared: Path) -> None:
    run = summarize(read([shared / "quirks" / "39_last_step_cut.json"]))
    assert tuple(run["ranks"][0]["by_step"][1].values()) == (6, 400_000, 300_000, 100_000)
    assert run["comm_ns"] == 500_000
    assert "its last step is incomplete" in " ".join(run["quality"]["warnings"])


def test_work_from_before_the_window_is_counted_by_time_not_by_launch(shared: Path) -> None:
    run = summarize(read([shared / "quirks" / "32_spillover_kernel.json"]))
    assert run["ranks"][0]["whole"]["comm_ns"] == 1_080_000
    assert run["quality"]["before_window"] == 1
