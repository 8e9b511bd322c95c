"""One measured row to change: MPT-7B on 16 A100 under Composer, and the shared tables where they are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from zerosim.validation.cells import Cells
from zerosim.validation.rows import StepRow, step_row

ROW = {
    "row_id": "R1",
    "source_id": "one",
    "gpu": "A100-SXM-80GB",
    "n_gpus": "16",
    "gpus_per_node": "8",
    "inter_gbps_per_node_stated": "1600",
    "framework": "Composer/PyTorch FSDP1",
    "zero_stage": "3",
    "shard_group": "16",
    "params": "6658859008",
    "layers": "32",
    "hidden": "4096",
    "heads": "32",
    "kv_heads": "32",
    "ffn": "16384",
    "vocab": "50368",
    "seq_len": "2048",
    "micro_batch": "4",
    "grad_accum": "2",
    "precision": "bf16 (PURE)",
    "ag_dtype": "bf16",
    "rs_dtype": "bf16",
    "act_ckpt": "none",
    "attention": "flash2",
    "optimizer": "decoupled_adamw",
    "step_time_s": "4.5",
    "simulatable": "yes",
    "split": "test",
    "suite": "core-holdout",
}


@pytest.fixture
def cells() -> Callable[..., Cells]:
    """The row with some cells changed; a blank text takes one away."""

    def changed(**given: str) -> Cells:
        filled = {name: text for name, text in (ROW | given).items() if text}
        return Cells(filled.get("row_id", "R1"), filled)

    return changed


@pytest.fixture
def row(cells: Callable[..., Cells]) -> Callable[..., StepRow]:
    """The same, read."""
    return lambda **given: step_row(cells(**given))


@pytest.fixture
def measured() -> Path:
    """The folder of measured facts beside the checkout."""
    folder = Path(__file__).parents[4] / "shared" / "measured"
    if not folder.is_dir():
        pytest.skip("the shared tables of measured facts are not here")
    return folder
