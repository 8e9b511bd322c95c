"""The figure of ours that a measured one is held against: a peak, what is reserved, states, an estimate."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from zerosim.memory.conventions import CONVENTIONS, Convention
from zerosim.memory.footprint import heaviest
from zerosim.memory.overheads import CONTEXT_BYTES, cublas_bytes, nccl_bytes
from zerosim.memory.reserved import reserved
from zerosim.memory.residual import (
    deepspeed_zero2,
    deepspeed_zero2_printed,
    deepspeed_zero3,
)
from zerosim.memory.states import largest_model, states
from zerosim.scenario import moments_of
from zerosim.scenario.fit import steady
from zerosim.validation.architectures import architectures
from zerosim.validation.cells import Cells, Default
from zerosim.validation.memory_rows import MemoryRow
from zerosim.validation.memory_scenarios import Ran, ran
from zerosim.validation.memory_sources import Corrected

_STAGE: Final = re.compile(r"zero-?(\d)", re.IGNORECASE)
_RANKS: Final = re.compile(r"(\d{1,9}) GPUs")
_COMMUNICATORS: Final = 1
_GB: Final = 10**9


def predicted(row: MemoryRow, said: Corrected) -> tuple[int, tuple[Default, ...]]:
    """Our figure for a row, and the blanks that were filled. Raises MeasurementError, InputError."""
    if row.figure == "states":
        return _states(row.cells)
    if row.figure == "estimate":
        return _estimate(row.cells)
    if row.figure == "largest":
        return _largest(row.cells)
    found = ran(said)
    if row.figure == "allocated":
        _, plan = steady(found.scenario)
        return heaviest(plan).peak_bytes + cublas_bytes(found.step.gpu or ""), found.defaults
    outside = _outside_bytes() if row.figure == "device" else 0
    return _reserved_bytes(found, None) + outside, found.defaults


def fits_bytes(
    said: Corrected, micro_batch: int, limit_bytes: int
) -> tuple[int, tuple[Default, ...]]:
    """What a row takes of a device with this micro-batch: reserved memory and all beside it."""
    filled = {**said.cells.filled, "micro_batch": str(micro_batch)}
    found = ran(replace(said, cells=replace(said.cells, filled=filled)))
    outside = _outside_bytes()
    return _reserved_bytes(found, limit_bytes - outside) + outside, found.defaults


def _outside_bytes() -> int:
    return CONTEXT_BYTES + nccl_bytes(_COMMUNICATORS)


def _reserved_bytes(found: Ran, limit_bytes: int | None) -> int:
    scenario, plan = steady(found.scenario)
    rank = heaviest(plan).first
    scratch = cublas_bytes(found.step.gpu or "")
    limit = None if limit_bytes is None else limit_bytes - scratch
    moments = moments_of(scenario, plan, rank)
    return reserved(plan, rank, moments=moments, limit_bytes=limit).peak_bytes + scratch


def _states(cells: Cells) -> tuple[int, tuple[Default, ...]]:
    precision = cells.text("precision") or ""
    convention = CONVENTIONS["adam-fp32" if precision.lower() == "fp32" else "paper"]
    found = states(_params(cells), convention, _stage(cells), cells.whole("n_gpus") or 1)
    return found.nbytes, _named(convention, precision)


def _estimate(cells: Cells) -> tuple[int, tuple[Default, ...]]:
    n_params, n_ranks, stage = _params(cells), cells.needed("n_gpus"), _stage(cells)
    offload = cells.text("offload") or "no"
    if stage == 2:  # noqa: PLR2004 - the ZeRO stage
        printed = "memory.rst" in (cells.text("source") or "")
        form = deepspeed_zero2_printed if printed else deepspeed_zero2
        return form(n_params, n_ranks, offload=offload != "no"), ()
    largest = cells.whole("largest_layer")
    if largest is None:
        raise cells.refused(
            "the estimate depends on the largest layer, which the row does not give"
        )
    kept = {"no": "none", "optimizer": "optimizer"}.get(offload, "all")
    return deepspeed_zero3(n_params, n_ranks, largest, kept), ()


def _largest(cells: Cells) -> tuple[int, tuple[Default, ...]]:
    """States alone, as the paper's own closed form has it."""
    said = cells.text("locator") or ""
    stage, ranks = _STAGE.search(said), _RANKS.search(said)
    if "model parallelism" not in said and ("MP" in said or "Fig" in said):
        raise cells.bad("locator", "only data parallelism has a closed form; leave the row out")
    ranks_text = ranks[1] if ranks else "64"
    gigabytes = cells.positive("gpu_mem_gb")
    if gigabytes is None:
        raise cells.refused("gpu_mem_gb is blank: say how much memory there is")
    convention = CONVENTIONS["paper"]
    most = largest_model(
        int(gigabytes * _GB), convention, int(stage[1]) if stage else 0, int(ranks_text)
    )
    return most, _named(convention, "")


def _params(cells: Cells) -> int:
    known = architectures().get((cells.text("model_id") or "").lower(), {})
    found = cells.positive("params") or float(known.get("params") or 0)
    if not found:
        raise cells.refused("params is blank: give the parameter count")
    return round(found)


def _stage(cells: Cells) -> int:
    stage = cells.whole("zero_stage", least=0)
    if stage is None:
        raise cells.refused("zero_stage is blank: give 0, 1, 2 or 3")
    return stage


def _named(convention: Convention, precision: str) -> tuple[Default, ...]:
    if precision:
        return ()
    return (Default("precision", convention.name, "the paper's own convention"),)
