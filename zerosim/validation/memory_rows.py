"""Rows of measured memory: what was measured, and which of our figures it is to be held against."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from zerosim.memory.overheads import USABLE
from zerosim.validation.cells import Cells, Default

GIB: Final = 2**30
_KINDS: Final = (
    ("largest model", "largest"),
    ("largest batch", "fits"),
    ("fit", "fits"),
    ("estimator", "estimate"),
    ("states only", "states"),
    ("optimizer step", "states"),
    ("nvidia-smi", "device"),
    ("tool not stated", "device"),
    ("torchtitan metric", "reserved"),
    ("peak reserved", "reserved"),
    ("max reserved", "reserved"),
    ("alloc", "allocated"),
    ("active", "allocated"),
    ("max", "allocated"),
    ("peak", "allocated"),
    ("reported", "allocated"),
)
"""A word of a row's mem_kind, and the figure that it means; the first that is found."""
_OF_A_DEVICE: Final = ("allocated", "reserved", "device")
_MOST_GIB: Final = 1e6
"""A petabyte; no rank has so much."""
_MOST_BILLIONS: Final = 1e6
_UNSTATED: Final = ("tool not stated", "reported")
_OUT: Final = re.compile(r"oom(?: at)?(?: (?:batch |mbs )?(\d{1,9}))?", re.IGNORECASE)
_MOST: Final = re.compile(r"max batch (\d{1,9})", re.IGNORECASE)
_FITS: Final = re.compile(r"(?:batch |mbs )?(\d{1,9}) fits", re.IGNORECASE)
_BILLIONS: Final = re.compile(r"(\d+(?:\.\d+)?) ?B\b")


@dataclass(frozen=True, slots=True)
class Claim:
    """Whether a micro-batch fits the device, as the source says."""

    micro_batch: int
    fits: bool


@dataclass(frozen=True, slots=True)
class MemoryRow:
    """One measured figure. `measured`: bytes, or parameters for `largest`; None for `fits`.

    `figure`: what torch `allocated` or `reserved` at most; what nvidia-smi shows (`device`); `states`
    alone; what DeepSpeed's estimator says (`estimate`); the `largest` model; whether a micro-batch `fits`.
    `limit_bytes` is the device's memory as CUDA counts it, None if the row does not say. `cells` are
    the row's, corrected by what its source says (`memory_sources`).
    """

    row_id: str
    source_id: str
    split: str
    figure: str
    measured: int | None
    claims: tuple[Claim, ...]
    limit_bytes: int | None
    cells: Cells
    defaults: tuple[Default, ...]


def memory_row(cells: Cells) -> MemoryRow:
    """Read one row. Raises MeasurementError, naming the cell, for what cannot be compared."""
    kind = (cells.text("mem_kind") or "").lower()
    figure = next((figure for word, figure in _KINDS if word in kind), None)
    if figure is None:
        raise cells.bad("mem_kind", "no figure of ours is that; leave the row out")
    defaults = []
    if any(word in kind for word in _UNSTATED):
        why = "the source does not name the tool"
        defaults.append(Default("mem_kind", figure, why))
    limit = cells.positive("gpu_mem_gb", _MOST_GIB)
    return MemoryRow(
        row_id=cells.row_id,
        source_id=cells.text("source_id") or "unnamed source",
        split=cells.text("split") or "test",
        figure=figure,
        measured=_measured(cells, figure),
        claims=_claims(cells) if figure == "fits" else (),
        limit_bytes=None if limit is None else int(limit * USABLE * GIB),
        cells=cells,
        defaults=tuple(defaults),
    )


def _measured(cells: Cells, figure: str) -> int | None:
    if figure == "fits":
        return None
    if figure == "largest":
        found = _BILLIONS.search(cells.text("notes") or "")
        if found is None:
            raise cells.bad("notes", "say how many parameters trained, like 1.4B")
        billions = float(found[1])
        if not 0 < billions <= _MOST_BILLIONS:
            raise cells.bad("notes", f"give a model above 0, at most {_MOST_BILLIONS:g} B")
        return round(billions * 1e9)
    value = cells.positive("mem_gib", _MOST_GIB)
    if value is None:
        raise cells.refused("mem_gib is blank: nothing was measured")
    decimal = "1e9" in (cells.text("mem_unit_in_source") or "")
    nbytes = round(value * (1e9 if decimal else GIB))
    device = cells.positive("gpu_mem_gb", _MOST_GIB)
    if figure in _OF_A_DEVICE and device is not None and nbytes > device * GIB:
        raise cells.bad("mem_gib", f"its GPU has {device:g} GB in all; mend one of them")
    return nbytes


def _claims(cells: Cells) -> tuple[Claim, ...]:
    """`OOM at 9, 8 fits`, `max batch 5`, `OOM`: of the row's own micro-batch if none is named."""
    notes = cells.text("notes") or ""
    own = cells.whole("micro_batch") or 1
    if "largest batch" in (cells.text("mem_kind") or ""):
        return Claim(own, fits=True), Claim(own + 1, fits=False)
    most = _MOST.search(notes)
    if most is not None:
        return Claim(int(most[1]), fits=True), Claim(int(most[1]) + 1, fits=False)
    out, fits = _OUT.search(notes), _FITS.search(notes)
    claims = []
    if fits is not None:
        claims.append(Claim(int(fits[1]), fits=True))
    if out is not None:
        claims.append(Claim(int(out[1] or own), fits=False))
    if not claims:
        raise cells.bad("notes", "say what fits or is OOM, like 'OOM at 9, 8 fits'")
    return tuple(claims)
