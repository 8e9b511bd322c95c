"""Why rows are left out: alike but for their numbers is one reason; the table carried is what is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from zerosim.errors import MeasurementError
from zerosim.validation.reasons import carried_reasons, reasons, reasons_table
from zerosim.validation.rows import LeftOut, StepRow, read_steps
from zerosim.validation.steps import simulated

TABLE = Path(__file__).parents[3] / "zerosim/validation/facts/left_out.csv"


def test_reasons_that_differ_by_numbers_alone_are_one() -> None:
    rows = [
        LeftOut("S1", "one", "row S1: params is 12, too few", wanted=True),
        LeftOut("S2", "one", "row S2: params is 1.3e+04, too few", wanted=True),
        LeftOut("S3", "two", "row S3: params is 12, too few", wanted=True),
    ]
    first, second = reasons(rows)
    assert (first.n, first.source_id, second.n, second.source_id) == (2, "one", 1, "two")
    assert first.line == "row S1: params is 12, too few (one, and 1 more like it)"
    assert second.line == "row S3: params is 12, too few (two)"


def test_the_table_that_is_carried_names_a_source_and_a_reason_in_every_row() -> None:
    assert carried_reasons()
    assert all(one.source_id and one.sentence and one.n > 0 for one in carried_reasons())


def test_the_table_that_is_carried_is_what_the_shared_one_leaves_out(
    measured: Path, request: pytest.FixtureRequest
) -> None:
    rows, unread = read_steps(measured / "step_times.csv")
    refused = [left for row in rows if (left := _refused(row)) is not None]
    text = reasons_table(reasons([*unread, *refused]))
    if request.config.getoption("--update-golden"):
        TABLE.write_text(text)
    assert TABLE.read_text() == text


def _refused(row: StepRow) -> LeftOut | None:
    try:
        simulated(row)
    except MeasurementError as error:
        return LeftOut(row.row_id, row.source_id, str(error), wanted=True)
    return None
