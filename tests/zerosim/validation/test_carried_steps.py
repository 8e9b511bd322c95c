"""The table of measured steps that zerosim carries: sourced, complete, and true to the shared one."""

from __future__ import annotations

from pathlib import Path

import pytest

from zerosim.validation.carried_steps import carried_steps
from zerosim.validation.cells import read_cells
from zerosim.validation.rows import StepRow, step_rows
from zerosim.validation.steps import simulated

SHARED = Path(__file__).parents[4] / "shared" / "measured" / "step_times.csv"


def test_every_row_has_a_source_and_can_be_simulated() -> None:
    rows, left_out = step_rows(carried_steps())
    assert left_out == ()
    assert len(rows) > 300
    assert [cells.row_id for cells in carried_steps() if not cells.text("source")] == []
    assert [row.row_id for row in rows if simulated(row).scenario.name != row.row_id] == []


def test_calib_and_test_rows_are_marked_and_no_others_are_carried() -> None:
    assert {cells.text("split") for cells in carried_steps()} == {"calib", "test"}


@pytest.mark.skipif(not SHARED.exists(), reason="../shared/measured is not beside the repository")
def test_every_row_is_read_as_the_shared_table_has_it() -> None:
    def facts(row: StepRow) -> tuple[object, ...]:
        sizes = (row.sizes, row.micro_batch, row.grad_accum, row.measured_s)
        run = (row.framework, row.zero_stage, row.shard_group, row.gpu, row.n_gpus)
        return (row.source_id, row.split, row.suite, row.simulatable, *sizes, *run, row.wire)

    shared = {row.row_id: row for row in step_rows(read_cells(SHARED))[0]}
    for row in step_rows(carried_steps())[0]:
        assert facts(row) == facts(shared[row.row_id]), row.row_id
        assert simulated(row).scenario == simulated(shared[row.row_id]).scenario, row.row_id
