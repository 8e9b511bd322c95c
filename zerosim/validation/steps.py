"""From a measured row to the scenario that it ran, with every blank that was filled."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from zerosim.errors import InputError, MeasurementError
from zerosim.scenario import Scenario
from zerosim.validation.cells import Default
from zerosim.validation.dtypes import optimizer
from zerosim.validation.engines import choice_of
from zerosim.validation.family import family
from zerosim.validation.places import cluster_fields
from zerosim.validation.rows import StepRow

_TORCH_CHECKPOINT: Final = ("FSDP", "PyTorch DDP")
"""Frameworks whose checkpoints are torch's, not reentrant: they stop early from torch 2.1 on."""
_SOME_LAYERS: Final = re.compile(r"(\d{1,9}) of (\d{1,9}) layers")


@dataclass(frozen=True, slots=True)
class Simulated:
    """A row as a scenario, and the defaults that stand for its blanks."""

    row: StepRow
    scenario: Scenario
    defaults: tuple[Default, ...]


def simulated(row: StepRow) -> Simulated:
    """The scenario of a row. Raises MeasurementError where no honest one exists."""
    cluster, where = cluster_fields(row)
    choice = choice_of(row)
    attention, attends = _attention(row)
    kept, again = _checkpointing(row, attention)
    if kept.get("checkpointing") == "full" and _stops_early(row):
        kept["early_stop"] = True
        again = [*again, Default("act_ckpt", "stops early", "torch's checkpoint, from 2.1 on")]
    updates, updated = optimizer(row)
    compiled, fuses = _compiled(row)
    sizes = row.sizes
    record: dict[str, Any] = {
        "name": row.row_id,
        "workload": {
            **family(row),
            **kept,
            "compile": compiled,
            "layers": sizes.layers,
            "hidden": sizes.hidden,
            "heads": sizes.heads,
            "kv_heads": sizes.kv_heads,
            "ffn": sizes.ffn,
            "vocab": sizes.vocab,
            "seq": sizes.seq,
            "micro_batch": row.micro_batch,
            "micro_batches": row.grad_accum,
            "attention": attention,
        },
        "schedule": {"name": choice.schedule, **choice.options},
        "cluster": cluster,
        "numerics": {**choice.numerics, "optimizer": updates},
        "run": {"steps": 2},
    }
    try:
        scenario = Scenario.from_dict(record)
    except MeasurementError:
        raise
    except InputError as error:
        raise row.refused(str(error)) from None
    defaults = (*row.defaults, *where, *choice.defaults, *attends, *again, *fuses, *updated)
    return Simulated(row, scenario, defaults)


def _compiled(row: StepRow) -> tuple[bool, list[Default]]:
    if "llm.c" in row.framework.lower():
        why = "its kernels are fused by hand, as a compiler would (train_gpt2.cu)"
        return True, [Default("compile", "yes", why)]
    return (row.raw.text("compile") or "").lower() in ("yes", "true"), []


def _attention(row: StepRow) -> tuple[str, list[Default]]:
    stated = (row.raw.text("attention") or "").lower()
    if any(word in stated for word in ("flash2", "sdpa", "cudnn")):
        return "flash", []
    if "flash" in stated:
        return "flash1", [Default("attention", "flash1", "flash, of which version is not stated")]
    if "standard" in stated or "eager" in stated:
        return "eager", []
    if "v100" in (row.gpu or "").lower():
        return "eager", [Default("attention", "eager", "V100 has no flash attention")]
    return "flash1", [Default("attention", "flash1", "not stated: as runs that say flash alone")]


def _checkpointing(row: StepRow, attention: str) -> tuple[dict[str, Any], list[Default]]:
    stated = (row.raw.text("act_ckpt") or "").lower()
    note = row.raw.text("act_ckpt_note") or ""
    some = _SOME_LAYERS.search(note)
    if stated in ("none", "no", "false"):
        return {}, []
    if stated in ("full", "yes", "true"):
        return {"checkpointing": "full"}, []
    if stated == "partial" and some is not None:
        return _some(int(some[1])), []
    if stated == "selective":
        return _selective(row, attention, note)
    if not stated:
        return {}, [Default("act_ckpt", "none", "not stated")]
    raise row.raw.bad("act_ckpt", "give none, selective, full, or partial with 'N of L layers'")


def _stops_early(row: StepRow) -> bool:
    """Whether torch's own checkpoint ran, as FSDP and DDP take it, in 2.1 (October 2023) or later."""
    date = row.raw.text("date") or ""
    made = any(name in row.framework for name in _TORCH_CHECKPOINT)
    return made and (date[:4] >= "2024" or date[:7] in ("2023-10", "2023-11", "2023-12"))


def _selective(row: StepRow, attention: str, note: str) -> tuple[dict[str, Any], list[Default]]:
    """By op, or of the scores; else so many whole layers as recompute what the row lets us know."""
    if attention == "eager":
        return {"checkpointing": "selective"}, []
    if any(word in note for word in ("selective op", "per-op")):
        return {"checkpointing": "ops"}, []
    layers = row.sizes.layers
    hardware, model = row.raw.positive("hfu_stated"), row.raw.positive("mfu_stated")
    if hardware is not None and model is not None and hardware > model:
        share = min(1.0, 3 * (hardware / model - 1))
        why = "a third of a step for each share, as HFU over MFU says"
        return _some(round(share * layers)), [
            Default("act_ckpt_note", f"{round(share * layers)} of {layers} layers", why)
        ]
    why = "every second layer, torchtitan's default"
    return _some(layers // 2), [Default("act_ckpt_note", f"{layers // 2} of {layers} layers", why)]


def _some(layers: int) -> dict[str, Any]:
    return {"checkpointing": "full", "checkpointed_layers": layers} if layers else {}
