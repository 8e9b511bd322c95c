"""Real traces give the figures that others computed from them, to the nanosecond."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from zerosim.analysis.summary import summarize
from zerosim.importers import read

GOLDEN = Path(__file__).parents[2] / "golden" / "gloo_ddp"
KINDS = {
    "_allgather_base": "all_gather",
    "_reduce_scatter_base": "reduce_scatter",
    "allreduce": "all_reduce",
}
DTYPES = {"Float": "float32", "BFloat16": "bfloat16"}
H100 = "KellerJordan+modded-nanogpt"


@pytest.fixture(scope="module")
def truth() -> dict[str, Any]:
    path = Path(__file__).parents[4] / "shared" / "traces" / "truth_give.json"
    if not path.is_file():
        pytest.skip("needs the shared traces")
    found: dict[str, Any] = json.loads(path.read_text())["kineto"]
    return found


@pytest.fixture(scope="module")
def summaries(truth: dict[str, Any]) -> dict[str, dict[str, Any]]:
    folder = Path(__file__).parents[4] / "shared" / "traces"
    names = {"mn1211": H100, "gloo_ddp": "own-gloo-ddp", "gloo_fsdp2_rs": "own-gloo-fsdp2_rs"}
    assert set(names) <= {key.split("/")[0] for key in truth["traces"]}
    return {key: summarize(read([folder / name])) for key, name in names.items()}


def test_whole_figures_of_each_h100_rank_are_exact(
    truth: dict[str, Any], summaries: dict[str, Any]
) -> None:
    for entry in summaries["mn1211"]["ranks"]:
        whole = truth["traces"][f"mn1211/rank{entry['rank']}-chrome-trace"]["whole"]
        assert entry["whole"] == {
            "compute_ns": whole["compute_busy_ns"],
            "comm_ns": whole["comm_busy_ns"],
            "mem_ns": whole["mem_busy_ns"],
            "exposed_ns": whole["exposed_comm_ns"],
        }


def test_steps_of_each_h100_rank_are_exact(
    truth: dict[str, Any], summaries: dict[str, Any]
) -> None:
    for entry in summaries["mn1211"]["ranks"]:
        told = truth["traces"][f"mn1211/rank{entry['rank']}-chrome-trace"]
        assert entry["steps"] == [
            {
                "step": step["step"],
                "start_ns": told["base_time_ns"] + step["ts_ns"],
                "step_ns": step["dur_ns"],
            }
            for step in told["steps"]
        ]
        assert entry["by_step"] == [
            {
                "step": step["step"],
                "compute_ns": told["by_launch"][str(step["step"])]["compute_busy_ns"],
                "comm_ns": told["by_launch"][str(step["step"])]["comm_busy_ns"],
                "exposed_ns": told["by_launch"][str(step["step"])]["exposed_comm_ns"],
            }
            for step in told["steps"]
        ]


def test_collectives_of_each_h100_rank_are_exact(
    truth: dict[str, Any], summaries: dict[str, Any]
) -> None:
    for entry in summaries["mn1211"]["ranks"]:
        told = truth["traces"][f"mn1211/rank{entry['rank']}-chrome-trace"]["collectives_kernel"]
        expected = []
        for key, sums in told.items():
            name, dtype, size = key.split("|")
            side = "out" if name == "_allgather_base" else "in"
            expected.append(
                {
                    "kind": KINDS[name],
                    "dtype": DTYPES[dtype],
                    "group_size": int(size),
                    "count": sums["count"],
                    "elements": sums[f"{side}_nelems"],
                    "nbytes": sums[f"{side}_bytes"],
                }
            )
        assert entry["collectives"] == expected


def test_one_h100_rank_by_hand(summaries: dict[str, Any]) -> None:
    """Figures of rank 1 written out, so that a wrong truth file would be noticed too."""
    run = summaries["mn1211"]
    rank1 = run["ranks"][1]
    assert rank1["whole"]["compute_ns"] == 131_026_250
    assert rank1["whole"]["exposed_ns"] == 17_483_315
    assert rank1["by_step"][3]["exposed_ns"] == 3_545_677
    assert (run["world_size"], run["step_ns"]) == (8, 47_103_662)
    assert run["quality"]["events"] == 27_408 + 27_146 + 26_892 + 27_878


def test_waiting_of_the_h100_ranks_is_exact(
    truth: dict[str, Any], summaries: dict[str, Any]
) -> None:
    told, skew = truth["cross_rank"]["mn1211"], summaries["mn1211"]["skew"]
    assert skew["n"] == told["n"] == 56
    assert skew["wait_ns_per_rank"] == told["wait_ns_per_rank"]
    assert skew["wait_ns_per_rank"] == [30_021_612, 4_813_044, 32_141_114, 37_988_640]
    assert skew["arrived_last_count"] == told["arrived_last_count"]
    assert (skew["aligned"], skew["straggler"]) == (True, 1)


@pytest.mark.parametrize("run", ["gloo_ddp", "gloo_fsdp2_rs"])
def test_figures_of_each_gloo_rank_are_exact(
    truth: dict[str, Any], summaries: dict[str, Any], run: str
) -> None:
    assert [entry["rank"] for entry in summaries[run]["ranks"]] == [0, 1, 2, 3]
    for entry in summaries[run]["ranks"]:
        told = truth["traces"][f"{run}/rank{entry['rank']}"]
        assert entry["whole"]["comm_ns"] == told["gloo"]["busy_ns"]
        assert entry["whole"]["compute_ns"] == told["gloo"]["aten_main_thread_busy_ns"]
        assert entry["whole"]["exposed_ns"] == told["gloo"]["gloo_not_covered_by_aten_ns"]
        assert [s["step_ns"] for s in entry["steps"]] == [s["dur_ns"] for s in told["steps"]]
        assert entry["peak_bytes"] == told["memory"]["device 0/-1"]["peak_total_allocated"]


def test_gloo_fsdp_is_gathers_and_reduce_scatters_not_all_reduces(
    summaries: dict[str, Any],
) -> None:
    for entry in summaries["gloo_fsdp2_rs"]["ranks"]:
        assert [(c["kind"], c["count"], c["elements"]) for c in entry["collectives"]] == [
            ("all_gather", 24, 1_342_728),
            ("reduce_scatter", 12, 671_364),
        ]


def test_the_order_of_gloo_fsdp_is_read_from_its_marks(summaries: dict[str, Any]) -> None:
    order = summaries["gloo_fsdp2_rs"]["order"].split()
    gathers = [word for word in order if word.startswith("AG")]
    reductions = [word for word in order if word.startswith("RS")]
    assert gathers == [
        *("AGroot", "AGblocks.0", "AGblocks.1", "AGblocks.2"),
        *("AGroot", "AGblocks.2", "AGblocks.1", "AGblocks.0"),
    ]
    assert sorted(reductions) == ["RSblocks.0", "RSblocks.1", "RSblocks.2", "RSroot"]
    assert order[-1] == "OPT"


def test_other_sets_tie_up_as_others_found(truth: dict[str, Any]) -> None:
    folder = Path(__file__).parents[4] / "shared" / "traces" / "pytorch+torchrec"
    files = sorted(folder.glob("*golden_training__log__*"))
    assert len(files) == 2
    told, skew = truth["cross_rank"]["torchrec_log"], summarize(read(files))["skew"]
    assert skew["n"] == told["n"]
    assert skew["wait_ns_per_rank"] == told["wait_ns_per_rank"]
    assert skew["arrived_last_count"] == told["arrived_last_count"]


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
