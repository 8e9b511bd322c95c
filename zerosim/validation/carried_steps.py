"""The measured steps that zerosim carries, each with its source: those that can be simulated."""

from __future__ import annotations

from functools import cache
from typing import Final

from zerosim.validation.architectures import SIZES, architectures
from zerosim.validation.cells import Cells, fact_rows

_COLUMNS: Final = {
    "fact": "row_id",
    "from": "source_id",
    "where": "locator",
    "ranks": "n_gpus",
    "per_node": "gpus_per_node",
    "network": "inter_link",
    "network_gbps": "inter_gbps_per_node_stated",
    "system": "framework",
    "stage": "zero_stage",
    "sharded_over": "shard_group",
    "model": "model_id",
    "seq": "seq_len",
    "accumulation": "grad_accum",
    "dtype": "precision",
    "gathered": "ag_dtype",
    "reduced": "rs_dtype",
    "checkpointing": "act_ckpt",
    "how": "act_ckpt_note",
    "compiled": "compile",
    "hfu": "hfu_stated",
    "mfu": "mfu_stated",
    "seconds": "step_time_s",
    "complete": "simulatable",
    "group": "scaling_group",
    "says": "notes",
}
"""Columns of facts/steps.csv and those of a row that is scored; the others are called alike."""


@cache
def carried_steps() -> tuple[Cells, ...]:
    """The rows of facts/steps.csv, as rows that can be scored (docs/validation.md explains them).

    Sizes that are blank are those of the model in facts/architectures.csv.
    """
    found = []
    for row in fact_rows("steps.csv"):
        filled = {_COLUMNS.get(c, c): text for c, text in row.items() if text}
        known = architectures().get(row["model"].lower(), {})
        sizes = {c: known[c] for c in SIZES if c in known}
        found.append(Cells(row["fact"], sizes | filled))
    return tuple(found)
