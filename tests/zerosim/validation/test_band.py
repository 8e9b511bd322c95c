"""The error band: from the measured runs nearest to a scenario, unseen ones first, or none at all."""

from __future__ import annotations

from dataclasses import replace

import pytest

from zerosim.hardware import MACHINES
from zerosim.scenario import load_scenario
from zerosim.schedules import SCHEDULES
from zerosim.validation.band import Near, Setting, band_of, error_band, rows, says

SETTING = Setting("FSDP/ZeRO-3", "ampere", "A100 SXM4 80GB", 64, 7e9, 4096, "none")
ROW = Near("S1", "one", "a page", "test", "A100 SXM4 80GB", 64, 7e9, 0.0, 0.04)


def run(row_id: str, error: float, split: str = "test", **other: object) -> tuple[Setting, Near]:
    setting = replace(SETTING, **other)  # type: ignore[arg-type]
    return setting, replace(ROW, row_id=row_id, error=error, split=split, n_gpus=setting.devices)


def test_the_band_is_median_and_90th_percentile_of_the_nearest_runs() -> None:
    found = band_of(SETTING, [run(f"S{i}", i / 100) for i in range(1, 6)])
    assert found is not None
    assert (found.n, found.median, found.p90) == (5, 0.03, 0.05)
    assert [near.row_id for near in found.nearest] == ["S1", "S2", "S3", "S4", "S5"]
    assert says(found) == (
        "±3% (median of the 5 measured FSDP/ZeRO-3 runs nearest to it: A100, 64 GPUs, one; "
        "90 % within 5%)"
    )


def test_nearer_runs_come_first_and_far_ones_not_at_all() -> None:
    runs = [
        run("twice", 0.1, devices=128),
        run("same", 0.2),
        run("a quarter of the sequence", 0.3, seq=1024),
        run("half the model, checkpointed", 0.4, params=3.5e9, checkpointing="full"),
        run("too small", 0.5, devices=2),
    ]
    found = band_of(SETTING, runs)
    assert found is not None
    assert [(near.row_id, near.distance) for near in found.nearest] == [
        ("same", 0.0),
        ("a quarter of the sequence", 1.0),
        ("twice", 1.0),
        ("half the model, checkpointed", 2.0),
    ]


def test_runs_that_constants_were_fitted_on_count_only_where_others_are_few() -> None:
    seen = [run(f"C{i}", 0.01, "calib") for i in range(9)]
    unseen = [run(f"T{i}", 0.05, devices=128) for i in range(5)]
    enough = band_of(SETTING, [*seen, *unseen])
    few = band_of(SETTING, [*seen, *unseen[:4]])
    assert enough is not None
    assert few is not None
    assert {near.split for near in enough.nearest} == {"test"}
    assert few.median == 0.01
    assert says(few).endswith("90 % within 1%; constants were fitted on 9 of them)")


@pytest.mark.parametrize(
    "other", [{"architecture": "hopper"}, {"family": "DDP"}, {"devices": 4096}], ids=str
)
def test_other_hardware_another_family_and_far_counts_are_not_near(
    other: dict[str, object],
) -> None:
    runs = [run(f"S{i}", 0.01) for i in range(9)]
    assert band_of(replace(SETTING, **other), runs) is None  # type: ignore[arg-type]


def test_two_runs_are_no_band() -> None:
    assert band_of(SETTING, [run("S1", 0.01), run("S2", 0.02)]) is None
    assert says(None) == "unknown: no measured runs are near to this scenario"


def test_a_machine_to_learn_with_has_no_band() -> None:
    assert error_band(load_scenario("lesson-zero3")) is None
    assert error_band(load_scenario("lesson-zero3", ["cluster=cpu-gloo"])) is None


def test_a_device_with_other_constants_is_not_the_measured_one() -> None:
    words = ["cluster=dgx-a100", "world_size=64"]
    assert error_band(load_scenario("llama2-7b", words)) is not None
    assert error_band(load_scenario("llama2-7b", [*words, "efficiency=0.9"])) is None


@pytest.mark.parametrize("schedule", list(SCHEDULES))
def test_every_schedule_belongs_to_a_family(schedule: str) -> None:
    words = [f"schedule={schedule}", "cluster=dgx-a100", "layers=1000"]
    assert error_band(load_scenario("lesson-zero3", words)) is None


def test_fsdp_that_keeps_its_parameters_stands_with_zero_2() -> None:
    words = ["cluster=dgx-a100", "world_size=64", "reshard_after_forward=false"]
    found = error_band(load_scenario("llama2-7b", ["schedule=fsdp2", *words]))
    assert found is not None
    assert found.family == "ZeRO-1/2"


def test_every_measured_run_is_on_a_machine_there_is_and_has_a_source() -> None:
    architectures = {machine.device.architecture for machine in MACHINES.entries.values()}
    assert len(rows()) > 200
    assert {setting.architecture for setting, _ in rows()} <= architectures
    assert all(near.source for _, near in rows())
