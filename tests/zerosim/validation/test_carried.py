"""The table of measured collectives that zerosim carries: whole, sourced, and true to the shared one."""

from __future__ import annotations

from pathlib import Path

import pytest

from zerosim.validation.carried import carried_collectives
from zerosim.validation.collective_rows import Row, read_rows
from zerosim.validation.settings import Setting, setting_of

SHARED = Path(__file__).parents[4] / "shared" / "measured" / "collectives.csv"
ROWS = carried_collectives().rows


def test_every_row_has_a_source() -> None:
    assert len(ROWS) > 500
    assert [row.row_id for row in ROWS if not row.source] == []


def test_every_row_can_be_scored() -> None:
    assert {row.split for row in ROWS} == {"calib", "test"}
    assert [row.row_id for row in ROWS if not isinstance(setting_of(row), Setting)] == []
    assert min(row.timing.nbytes for row in ROWS) >= 32768


@pytest.mark.skipif(not SHARED.exists(), reason="../shared/measured is not beside the repository")
def test_every_row_stands_in_the_shared_table_and_is_read_as_the_same_machine() -> None:
    def facts(row: Row) -> tuple[object, ...]:
        t = row.timing
        seconds = round(t.seconds * 1e9)
        return (row.series, row.split, row.algo, t.kind, t.n_ranks, t.n_nodes, t.nbytes, seconds)

    shared = {facts(row): setting_of(row) for row in read_rows(SHARED).rows}
    assert {row.row_id for row in ROWS if shared.get(facts(row)) != setting_of(row)} == set()
