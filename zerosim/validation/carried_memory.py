"""The measured memory that zerosim carries, each figure with its source: those that can be scored."""

from __future__ import annotations

from functools import cache
from typing import Final

from zerosim.validation.cells import Cells, fact_rows

_COLUMNS: Final = {
    "fact": "row_id",
    "from": "source_id",
    "where": "locator",
    "system": "framework",
    "stage": "zero_stage",
    "sharded_over": "shard_group",
    "gpu_gib": "gpu_mem_gb",
    "ranks": "n_gpus",
    "model": "model_id",
    "seq": "seq_len",
    "accumulation": "grad_accum",
    "dtype": "precision",
    "checkpointing": "act_ckpt",
    "how": "act_ckpt_note",
    "compiled": "compile",
    "figure": "mem_kind",
    "unit": "mem_unit_in_source",
    "amount": "mem_gib",
    "says": "notes",
}
"""Columns of facts/memory.csv and those of a row that is scored; the others are called alike."""


@cache
def carried_memory() -> tuple[Cells, ...]:
    """The rows of facts/memory.csv, as rows that can be scored (docs/memory.md explains them).

    `corrected`: the cells are as the source has them, where the table they were first noted in slips.
    """
    return tuple(
        Cells(row["fact"], {_COLUMNS.get(c, c): text for c, text in row.items() if text})
        for row in fact_rows("memory.csv")
    )
