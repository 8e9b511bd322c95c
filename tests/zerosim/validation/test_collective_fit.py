"""Fitted launchers and networks: from calibrated rows alone, found again where they were put in."""

from __future__ import annotations

from dataclasses import replace

import pytest

from zerosim.hardware.calibration import (
    Calibration,
    FabricConstants,
    LauncherConstants,
    merged,
    shipped,
)
from zerosim.kinds import Kind
from zerosim.validation.carried import carried_collectives
from zerosim.validation.collective_fit import descend, fit_collectives
from zerosim.validation.collective_rows import Row
from zerosim.validation.collectives import collective_scores, predict
from zerosim.validation.measured import Timing
from zerosim.validation.settings import PER_GPU, QUEUED

SIZES = tuple(2**n for n in range(15, 33))


def measured(known: Calibration, n_nodes: int, kind: Kind, **about: str) -> list[Row]:
    """What a machine with the constants `known` would have measured."""
    rows = []
    for nbytes in SIZES:
        timing = Timing(kind, 8 * n_nodes, n_nodes, nbytes, 1.0)
        row = replace(Row(f"{nbytes}", "made up", timing, "calib"), **about)  # type: ignore[arg-type]
        found = predict(row, known)
        assert not isinstance(found, str)
        rows.append(replace(row, timing=replace(timing, seconds=found.predicted_s)))
    return rows


def test_a_launch_is_found_again() -> None:
    slow = merged(shipped(), Calibration(launcher={PER_GPU: LauncherConstants(60e-6, "made up")}))
    rows = measured(slow, 1, Kind.ALL_GATHER, hardware="8x H200", gpu="H200", tool="torch")
    assert fit_collectives(rows).launcher[PER_GPU].issue_s == pytest.approx(60e-6, abs=1e-6)


def test_a_networks_share_and_latencies_are_found_again() -> None:
    truth = FabricConstants(20e-6, 0.7, "made up", net_base_s=40e-6)
    slow = merged(shipped(), Calibration(fabric={"GPUDirect-TCPXO": truth}))
    about = {"hardware": "2x a3-megagpu-8g", "gpu": "H100", "tool": "nccl-tests"}
    rows = measured(slow, 2, Kind.ALL_GATHER, **about)
    found = fit_collectives(rows).fabric["GPUDirect-TCPXO"]
    assert found.share == pytest.approx(0.7, abs=0.01)
    assert found.net_latency_s == pytest.approx(20e-6, abs=2e-6)
    assert found.net_base_s == pytest.approx(40e-6, abs=3e-6)
    assert found.source == "fitted on calib series made up: mean error 0.0%"


def test_nothing_is_fitted_on_rows_that_are_not_calibrated() -> None:
    slow = merged(shipped(), Calibration(launcher={PER_GPU: LauncherConstants(60e-6, "made up")}))
    rows = measured(slow, 1, Kind.ALL_GATHER, hardware="8x H200", gpu="H200", tool="torch")
    assert fit_collectives([replace(row, split="test") for row in rows]) == shipped()


def test_latencies_stay_nominal_where_only_large_tensors_were_measured() -> None:
    about = {"hardware": "2x OCI BM.GPU.B4.8", "gpu": "A100-SXM4-40GB", "tool": "nccl-tests"}
    rows = measured(shipped(), 2, Kind.ALL_GATHER, **about)
    found = fit_collectives([row for row in rows if row.timing.nbytes >= 2**26]).fabric["RoCE"]
    assert (found.net_latency_s, found.net_base_s) == (0.0, 0.0)


def test_descending_stops_at_the_bounds() -> None:
    assert descend(lambda v: (v[0] - 2) ** 2, (0.5,), (0.1,)) == pytest.approx((1.0,))


def test_the_shipped_constants_are_those_that_the_carried_rows_give() -> None:
    found, known = fit_collectives(carried_collectives().rows), shipped()
    for name in ("EFA v1", "EFA v2", "GPUDirect-TCPXO", "RoCE gIB"):
        assert replace(found.fabric[name], source="") == replace(known.fabric[name], source="")
        assert known.fabric[name].source.startswith(found.fabric[name].source)
    for name in (PER_GPU, QUEUED, "one process for all GPUs"):
        ours, shipped_one = found.launcher[name], known.launcher[name]
        assert replace(ours, source="") == replace(shipped_one, source="")
        assert ours.source in shipped_one.source


def test_series_that_meet_their_bars_go_on_meeting_them() -> None:
    scores = collective_scores(carried_collectives().rows)
    assert (
        {score.series for score in scores.of("calib") if not score.meets}
        == {
            "a100_40_2x8_oci",  # a ring where the tuner takes a tree: 7.0 % from 64 MiB
            "a100_40_x4_minitrain",  # issued by torch, and four GPUs reach three quarters of eight's rate
            "a100_40_x8_minitrain",
            "a100_80_2x8_aws_p4de",  # 10.2 % from 32 KiB
            "h100_2x8_aws_p5_eks",  # twice as slow as h100_2x8_aws_p5, on the same kind of machine
        }
    )
    assert {score.series for score in scores.of("test") if score.meets} == {
        "a100_3x8_119",
        "b200_subsets_stas",
        "h100_32x8_1218_ar",
        "h100_x96_coreweave",
        "jeanzay_n1_16gb_all_reduce_bench",
        "jeanzay_n1_32gb_all_reduce_bench",
    }
