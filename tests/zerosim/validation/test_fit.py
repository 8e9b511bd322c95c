"""Fits: constants come back from steps that were made with them; test rows never come in."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product

import pytest

from zerosim.errors import MeasurementError, UnknownNameError
from zerosim.hardware.calibration import calibration_from, calibration_text
from zerosim.scenario import cluster_of
from zerosim.toml_text import read_toml
from zerosim.validation.bench import bench
from zerosim.validation.constants import constants, started, with_values
from zerosim.validation.family import counts
from zerosim.validation.fit import fit
from zerosim.validation.predict import Predicted, predicted
from zerosim.validation.rows import Sizes, StepRow
from zerosim.validation.trial import Trial

NAMES = ("efficiency", "launch_s")


@pytest.fixture
def rows(row: Callable[..., StepRow]) -> list[StepRow]:
    """Small models, whose step is products for some and launches for others, in two micro-batches."""
    found = []
    for hidden, batch in product((256, 512, 1024, 2048), (4, 8)):
        sizes = Sizes(0, 2, hidden, 4, 4, 4 * hidden, 1000, 512)
        given = {name: str(getattr(sizes, name)) for name in ("layers", "hidden", "ffn", "vocab")}
        given |= {"heads": "4", "kv_heads": "4", "seq_len": "512", "micro_batch": str(batch)}
        params = str(counts(sizes)["gpt", True])
        found.append(row(row_id=f"R{hidden}x{batch}", params=params, split="calib", **given))
    return found


def truly(rows: Sequence[StepRow]) -> tuple[list[Predicted], tuple[float, ...]]:
    """The rows as if measured on an A100 with constants of our choice."""
    found = [predicted(row) for row in rows]
    every = constants(found, NAMES)
    truth = (0.61, 9e-6)
    known = with_values(started(found, every), every, truth)
    with bench([one.scenario for one in found], workers=1) as held:
        measured = [walk.seconds for walk in held.walks(known)]
    return [
        replace(one, row=replace(one.row, measured_s=s))
        for one, s in zip(found, measured, strict=True)
    ], truth


def test_constants_come_back_from_steps_that_were_made_with_them(rows: list[StepRow]) -> None:
    found, truth = truly(rows)
    result = fit(found, NAMES, workers=1)
    assert [constant.label for constant in result.constants] == [
        "A100 SXM4 80GB efficiency",
        "A100 SXM4 80GB launch_s",
    ]
    assert result.values == pytest.approx(truth, rel=1e-3)
    assert result.residuals[0].mean < 1e-4


def test_the_document_says_what_it_was_fitted_on_and_can_be_read_again(rows: list[StepRow]) -> None:
    result = fit(truly(rows)[0], NAMES, workers=1)
    again = calibration_from(read_toml(calibration_text(result.calibration)))
    assert again == result.calibration
    assert again.provenance["rows"] == "8 rows marked calib, none marked test"
    assert again.provenance["sources"] == "one 8"
    assert again.device["A100 SXM4 80GB"].source.startswith(
        "efficiency, launch_s fitted on 8 measured steps (one 8): mean error 0.0%"
    )


def test_a_row_marked_test_is_never_fitted_on(rows: list[StepRow]) -> None:
    found = [predicted(replace(row, split="test")) for row in rows]
    with pytest.raises(MeasurementError, match="row R256x4: split is 'test': constants are fitted"):
        fit([*found[:3], found[3]], NAMES, workers=1)


def test_a_fit_without_rows_or_of_an_unknown_constant_is_refused(rows: list[StepRow]) -> None:
    with pytest.raises(MeasurementError, match="no row is marked calib"):
        fit([])
    with pytest.raises(UnknownNameError, match="no constant to fit 'speed'"):
        fit([predicted(rows[0])], ["speed"], workers=1)


def test_several_processes_say_what_one_says(rows: list[StepRow]) -> None:
    found = [predicted(row) for row in rows]
    scenarios, known = [one.scenario for one in found], started(found, constants(found))
    with bench(scenarios, workers=1) as alone, bench(scenarios, workers=2) as together:
        assert alone.walks(known) == together.walks(known)
        assert alone.distinct == together.distinct


def test_a_mechanism_that_is_taken_out_stays_out_on_the_bench(rows: list[StepRow]) -> None:
    found = [predicted(row) for row in rows]
    known = started(found, constants(found))
    trial = Trial(without=("overlap",))
    with (
        bench([one.scenario for one in found], workers=1) as shipped,
        bench([one.scenario for one in found], trial, workers=1) as serial,
    ):
        pairs = zip(shipped.walks(known), serial.walks(known), strict=True)
        assert all(less.seconds < more.seconds for less, more in pairs)


def test_a_prediction_does_not_import_scipy() -> None:
    code = "import sys, zerosim.validation.fit, zerosim.cli.validate; print('scipy' in sys.modules)"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout == "False\n"


def test_a_device_of_few_rows_has_few_constants(rows: list[StepRow]) -> None:
    few = [replace(row, row_id=f"V{i}", gpu="V100-SXM2-32GB") for i, row in enumerate(rows[:2])]
    found = [predicted(replace(row, measured_s=60.0)) for row in [*rows, *few]]
    assert [constant.label for constant in constants(found, ("efficiency", "launch_s"))] == [
        "A100 SXM4 80GB efficiency",
        "A100 SXM4 80GB launch_s",
        "V100 SXM2 32GB efficiency",
    ]


def test_a_device_without_a_constant_of_its_own_does_not_move_with_others(
    rows: list[StepRow],
) -> None:
    found, truth = truly(rows)
    alone = predicted(replace(rows[3], row_id="V", gpu="V100-SXM2-32GB", measured_s=60.0))
    held = replace(alone, row=replace(alone.row, measured_s=alone.seconds))
    result = fit([*found, held], NAMES, workers=1)
    assert result.values[:2] == pytest.approx(truth, rel=1e-3)
    shipped_with = cluster_of(alone.scenario).device.efficiency
    assert result.values[2] == pytest.approx(shipped_with, rel=1e-2)
