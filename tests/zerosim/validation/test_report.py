"""The page of scores: aims with what was reached, splits apart, tables that Markdown can read."""

from __future__ import annotations

from dataclasses import replace

import pytest

from zerosim.hardware.calibration import Calibration, DeviceConstants
from zerosim.validation.ablation import Ablated
from zerosim.validation.board import Scoreboard, board_of
from zerosim.validation.collectives import CollectiveScores, SeriesScore
from zerosim.validation.memory import FitScore, MemoryScore, MemoryScores, SplitErrors
from zerosim.validation.null import Null
from zerosim.validation.published import Published
from zerosim.validation.reasons import Reason
from zerosim.validation.report import page
from zerosim.validation.report.aims import aims
from zerosim.validation.report.markdown import share, table
from zerosim.validation.report.others import collectives, constants, mechanisms, memory
from zerosim.validation.score import Errors, Scored

FACTS = {
    "source": "llmfoundry-1",
    "gpu": "A100",
    "size": "2 to 10 B",
    "GPUs": "16",
    "model": "mpt",
    "framework": "FSDP",
    "nodes": "2",
}
ROW = Scored(
    row_id="S1",
    source_id="llmfoundry-1",
    split="test",
    suite="core-holdout",
    simulatable="yes",
    scaling_group="G1",
    n_gpus=16,
    tokens=1,
    predicted_s=1.04,
    measured_s=1.0,
    null_s=1.2,
    facts=FACTS,
    defaults=(("ag_dtype", "bfloat16", "travels as it computes"),),
)
WIDE = replace(ROW, row_id="S2", n_gpus=32, predicted_s=1.05)
CALIB = replace(ROW, row_id="S3", split="calib", suite="core-calib", scaling_group=None)
ERRORS = Errors(n_rows=2, n_sources=1, median=0.03, mean=0.04, p90=0.05, bias=-0.01)
HELD = MemoryScore("M1", "lab", "test", "reserved", 21 * 10**9, 20 * 10**9, ())
SERIES = SeriesScore("s1", "test", ("all_gather",), "dgx-h100", 4, 0.1, 2, 0.05, -0.1, "r")


def board(*rows: Scored) -> Scoreboard:
    return board_of(rows or (ROW, WIDE, CALIB), (), Null({}, None))


def published(*rows: Scored) -> Published:
    claim = FitScore("M2", "lab", "test", 1, True, 5, 6, ())
    splits = (SplitErrors("test", ERRORS, (("lab", ERRORS),), 1, 1),)
    return Published(
        steps=board(*rows),
        collectives=CollectiveScores((), (SERIES,), (), ()),
        memory=MemoryScores((HELD,), (claim,), (), splits, (("attention", 3),)),
        left_out=(Reason("one", "S9", "gpu is blank", 2, wanted=True),),
    )


def test_an_aim_is_met_or_not_in_words() -> None:
    text = aims(published())
    assert "| MosaicML FSDP steps, mean error | ≤ 5.0% | 4.4% | yes |" in text
    assert "| MosaicML FSDP steps, median error | ≤ 4.0% | 3.9% | yes |" in text
    assert "| collectives, series within 15 % and 10 % | all | 1 of 1 | yes |" in text
    slow = aims(published(replace(ROW, predicted_s=1.4), WIDE))
    assert "| MosaicML FSDP steps, mean error | ≤ 5.0% | 19.3% | no |" in slow


def test_unseen_rows_come_first_and_fitted_ones_have_a_section_of_their_own() -> None:
    text = page(published(), (), Calibration())
    unseen, fitted = text.index("\n| test: all complete"), text.index("\n| calib: all complete")
    assert unseen < text.index("## Rows that constants are fitted on") < fitted
    assert "| S1 | llmfoundry-1 | 16 A100 | mpt | 1.04 s | 1 s | +3.9% | +18.2% |" in text
    assert "| ag_dtype = bfloat16 | 3 | travels as it computes |" in text
    assert "| one | 2 | gpu is blank |" in text


def test_what_people_wrote_into_the_page_stays() -> None:
    text = page(published(), (), Calibration(), by_hand="The V100 has no table of shapes.\n")
    assert "-->\nThe V100 has no table of shapes.\n<!-- end -->" in text


def test_series_say_how_many_are_within_their_bars() -> None:
    text = collectives(published().collectives)
    assert "1 of 1 are within 15% on average from 32 KiB up, and within 10% from 64 MiB up." in text
    assert "| s1 | dgx-h100 | all-gather | 4 | 10.0% | 5.0% | -10.0% | yes |" in text


def test_memory_says_what_fits_and_what_is_furthest_off() -> None:
    text = memory(published().memory)
    assert "Of 1 claims that a micro-batch fits or does not, 1 are predicted so." in text
    assert "| M1 | lab | reserved | 21 GB | 20 GB | +4.9% |" in text


@pytest.mark.parametrize(
    ("refitted", "said"), [(True, "fitted anew each time"), (False, "as they")]
)
def test_the_ablation_says_whether_constants_were_fitted_anew(refitted: bool, said: str) -> None:
    one = Ablated("overlap", "no overlap", refitted, {"test": ERRORS}, {"test": None})
    text = mechanisms([one])
    assert said in text
    assert "| no overlap | 3.0% | 4.0% |" in text
    assert mechanisms([]).startswith("Nobody has taken")


def test_constants_have_their_sources() -> None:
    device = {"X1": DeviceConstants(efficiency=0.7, launch_s=5e-6, source="fitted on calib rows")}
    text = constants(Calibration(device=device, provenance={"what": "a test"}))
    assert "- what: a test" in text
    # Nobody has a share of its own for attention, so that has no column.
    assert "| X1 | 0.7 | 5e-06 | 1 | fitted on calib rows |" in text
    assert "At most 3 numbers each" in text


def test_a_table_is_one_line_a_row_whatever_the_cells_hold() -> None:
    assert table(("a", "b"), [("x | y", "two\nlines")]) == (
        "| a | b |\n| --- | --- |\n| x \\| y | two lines |\n"
    )
    assert (share(None), share(0.123), share(0.1, signed=True)) == ("-", "12.3%", "+10.0%")
