"""Scores of measured collectives: the simulator's own time, a launch, and means by series."""

from __future__ import annotations

from dataclasses import replace

import pytest

from zerosim.collectives import transfer
from zerosim.hardware.calibration import Calibration, LauncherConstants, shipped
from zerosim.kinds import Kind
from zerosim.validation.collective_rows import Row
from zerosim.validation.collectives import (
    CollectiveScores,
    cluster_for,
    collective_scores,
    launched_s,
    predict,
)
from zerosim.validation.measured import Timing
from zerosim.validation.settings import PER_GPU, Setting

HOSTS = Calibration(
    launcher={
        "quick": LauncherConstants(10e-6, "test"),
        "slow host": LauncherConstants(10e-6, "test", each_s=4e-6, channel_s=0.5e-6),
    }
)


def row(nbytes: int, seconds: float, series: str = "s", split: str = "calib") -> Row:
    timing = Timing(Kind.ALL_GATHER, 8, 1, nbytes, seconds)
    return Row(f"{series} {nbytes}", series, timing, split, "test", "8x A100-SXM4-40GB", "A100")


def off(nbytes: int, factor: float, series: str = "s", split: str = "calib") -> Row:
    """A row that the prediction misses by `factor`."""
    found = predict(row(nbytes, 1.0), shipped())
    assert not isinstance(found, str)
    return row(nbytes, found.predicted_s / factor, series, split)


def test_a_launch_is_added_to_what_the_device_takes() -> None:
    assert launched_s(100e-6, 24, 8, "quick", HOSTS) == pytest.approx(110e-6)


def test_a_process_that_drives_eight_gpus_is_as_slow_as_its_host() -> None:
    # 8 GPUs x (4 µs + 24 channels x 0.5 µs) = 128 µs, more than 20 + 10 µs, less than 200 + 10 µs.
    assert launched_s(20e-6, 24, 8, "slow host", HOSTS) == pytest.approx(128e-6)
    assert launched_s(200e-6, 24, 8, "slow host", HOSTS) == pytest.approx(210e-6)


def test_the_prediction_is_the_simulators_own_time_and_a_launch() -> None:
    found = predict(row(2**26, 1.0), shipped())
    assert not isinstance(found, str)
    cluster = cluster_for(Setting("dgx-a100-40gb", PER_GPU), 8, 1, shipped())
    alone = transfer(Kind.ALL_GATHER, 2**26, 8, cluster).alone_ns
    issue_s = shipped().launcher[PER_GPU].issue_s
    assert found.predicted_s == pytest.approx(alone / 1e9 + issue_s)


def test_a_series_is_scored_from_32_kib_and_from_64_mib() -> None:
    rows = [off(2**14, 9.0), off(2**15, 1.2), off(2**25, 0.9), off(2**26, 1.03)]
    (score,) = collective_scores(rows).series
    assert score.n == 3
    assert score.mean == pytest.approx((0.2 + 0.1 + 0.03) / 3)
    assert score.bias == pytest.approx((0.2 - 0.1 + 0.03) / 3)
    assert score.n_large == 1
    assert score.mean_large == pytest.approx(0.03)


def test_calibrated_series_have_tighter_bars_than_tested_ones() -> None:
    rows = [off(2**26, 1.08), off(2**26, 1.08, "t", "test"), off(2**26, 1.08, "e", "extra")]
    found = {score.series: score.meets for score in collective_scores(rows).series}
    assert found == {"s": False, "t": True, "e": None}


def test_the_worst_series_stands_first() -> None:
    rows = [off(2**26, 1.1, "better"), off(2**26, 1.5, "worse")]
    assert [score.series for score in collective_scores(rows).series] == ["worse", "better"]


def test_a_row_that_cannot_be_predicted_is_left_out_with_its_reason() -> None:
    nowhere = replace(row(2**26, 1.0), gpu="", hardware="8 GPUs")
    too_many = replace(row(2**26, 1.0), timing=Timing(Kind.ALL_GATHER, 9, 1, 2**26, 1.0))
    found = collective_scores([nowhere, too_many])
    assert [left.why for left in found.left_out] == [
        "its GPU is not stated",
        "9 ranks on one node of dgx-a100-40gb: it has 8",
    ]
    assert found.rows == ()


def test_scores_are_kept_apart_by_split_and_by_collective() -> None:
    other = off(2**26, 1.1)
    mixed = [other, replace(other, timing=replace(other.timing, kind=Kind.REDUCE_SCATTER))]
    found: CollectiveScores = collective_scores([*mixed, off(2**26, 1.1, split="test")])
    assert [(s.split, s.kinds) for s in found.of("calib")] == [
        ("calib", ("all_gather", "reduce_scatter"))
    ]
    assert len(found.kinds) == 3
