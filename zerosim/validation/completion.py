"""Blank cells of a measured step, filled by documented defaults: from its model, its words, or habit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from zerosim.errors import MeasurementError
from zerosim.validation.architectures import architectures
from zerosim.validation.cells import Cells, Default

_SIZES: Final = ("params", "layers", "hidden", "heads", "kv_heads", "ffn", "vocab")
_STAGES: Final = (
    ("2", ("shard_grad_op", "zero-2", "zero2", "zero 2", "zero_2")),
    ("3", ("full_shard", "fully_shard", "hybrid_shard", "zero-3", "zero3", "zero 3", "zero_3")),
    ("1", ("zero-1", "zero1", "zero 1", "distributed optimizer")),
    ("3", ("fsdp",)),
    ("0", ("ddp", "no_shard", "data parallel")),
)
"""Words of a strategy or a framework, and the ZeRO stage that they mean; the first that is found."""
_HABITS: Final = (
    ("gpus_per_node", "8", "most nodes have eight"),
    ("source_id", "unnamed source", "rows of one file are one source"),
    ("split", "test", "a row that nobody marked is scored, never fitted"),
    ("simulatable", "yes", "a row that nobody marked is scored"),
    ("precision", "bf16", "what mixed precision is unless it says otherwise"),
)


def completed(cells: Cells) -> tuple[Cells, tuple[Default, ...]]:
    """The row with its blanks filled where that may be, and what filled them.

    Raises MeasurementError where the ZeRO stage is neither given nor said in words.
    """
    defaults = tuple(_defaults(cells))
    filled = {default.column: default.value for default in defaults} | dict(cells.filled)
    return Cells(cells.row_id, filled), defaults


def _defaults(cells: Cells) -> Iterator[Default]:
    known = architectures().get((cells.text("model_id") or "").lower(), {})
    for column in _SIZES:
        if cells.text(column) is None and column in known:
            yield Default(column, known[column], f"as {cells.text('model_id')} is known")
    stage = cells.text("zero_stage")
    if stage is None:
        stage = _stage(cells)
        yield Default("zero_stage", stage, "as its strategy or framework is called")
    if cells.text("framework") is None:
        ours = "PyTorch FSDP" if stage in ("2", "3") else "PyTorch DDP"
        yield Default("framework", ours, "by its ZeRO stage")
    for column, value, why in _HABITS:
        if cells.text(column) is None:
            yield Default(column, value, why)


def _stage(cells: Cells) -> str:
    for column in ("sharding_raw", "framework"):
        said = (cells.text(column) or "").lower()
        for stage, words in _STAGES:
            if any(word in said for word in words):
                return stage
    raise MeasurementError(f"row {cells.row_id}: zero_stage is blank: give 0, 1, 2 or 3")
