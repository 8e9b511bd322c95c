"""The table of measured memory that zerosim carries: sourced, scorable, and true to the shared one."""

from __future__ import annotations

from pathlib import Path

import pytest

from zerosim.validation.architectures import architectures
from zerosim.validation.carried_memory import carried_memory
from zerosim.validation.cells import Cells, read_cells
from zerosim.validation.memory import MemoryScores, memory_scores
from zerosim.validation.memory_sources import corrected

SHARED = Path(__file__).parents[4] / "shared" / "measured" / "memory.csv"
OWN = ("R0015", "R0016", "R0017", "R0018")
"""Reserved peaks of torchtitan's pull request 165, which the shared table does not have."""
SAME = (
    *("source_id", "split", "framework", "sharding", "zero_stage", "shard_group", "gpu"),
    *("gpu_mem_gb", "n_gpus", "model_id", "seq_len", "micro_batch", "grad_accum", "precision"),
    *("act_ckpt", "compile", "mem_kind", "mem_gib"),
)


@pytest.fixture(scope="module")
def scores() -> MemoryScores:
    return memory_scores(carried_memory())


def test_every_row_has_a_source_and_a_split() -> None:
    rows = carried_memory()
    assert len(rows) == 76
    assert [row.row_id for row in rows if not row.text("source") or not row.text("locator")] == []
    assert {row.text("split") for row in rows} == {"calib", "test"}


def test_every_architecture_has_a_source() -> None:
    assert [name for name, row in architectures().items() if not row["source"]] == []


def test_every_row_is_scored(scores: MemoryScores) -> None:
    assert scores.left_out == ()
    assert len(scores.rows) + len({one.row_id for one in scores.fits}) == 76


@pytest.mark.skipif(not SHARED.exists(), reason="../shared/measured is not beside the repository")
def test_every_row_stands_in_the_shared_table_as_its_source_has_it() -> None:
    shared = {row.row_id: corrected(row).cells for row in read_cells(SHARED)}

    def facts(row: Cells) -> tuple[str | None, ...]:
        return tuple(row.text(column) for column in SAME)

    wrong = {
        row.row_id: (facts(row), facts(shared[row.row_id]))
        for row in carried_memory()
        if row.row_id not in OWN and facts(row) != facts(shared[row.row_id])
    }
    assert wrong == {}


@pytest.mark.skipif(not SHARED.exists(), reason="../shared/measured is not beside the repository")
def test_the_shared_table_is_scored_as_the_carried_one(scores: MemoryScores) -> None:
    def figures(found: MemoryScores) -> list[tuple[str, int, int]]:
        rows = [r for r in found.rows if r.split != "extra" and r.row_id not in OWN]
        return [(r.row_id, r.predicted, r.measured) for r in rows]

    every = memory_scores(read_cells(SHARED))
    assert [row for row in every.left_out if row.wanted] != []
    # What the carried table writes with four digits is the same to that many.
    for (row_id, predicted, measured), mine in zip(figures(every), figures(scores), strict=True):
        assert mine[:2] == (row_id, predicted)
        assert mine[2] == pytest.approx(measured, rel=1e-4)
