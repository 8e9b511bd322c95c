"""Measured training steps: one row of a file of them, read, checked and completed where it may be."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from zerosim.errors import MeasurementError
from zerosim.validation.cells import Cells, Default, read_cells
from zerosim.validation.completion import completed

SPLITS: Final = ("calib", "test")
"""Rows that constants may be fitted on, and rows that they are scored on."""
MAX_FITTED: Final = 64
"""Rows with more micro-batches a step say little of constants for what they cost to simulate."""
_STAGE_3: Final = 3
_MOST_PER_NODE: Final = 1024
"""More GPUs than any switch joins."""
_MAX_STEP_S: Final = 86_400.0
"""A day; a longer step is a slip of the unit."""
SIMULATABLE: Final = ("yes", "partial")


@dataclass(frozen=True, slots=True)
class Sizes:
    """What a row says about its model: a decoder's sizes, and how many parameters it has."""

    params: float
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    ffn: int
    vocab: int
    seq: int


@dataclass(frozen=True, slots=True)
class StepRow:
    """One measured step. `measured_s`: seconds of a step; `shard_group`: ranks that share state.

    `wire`: dtypes of gathered parameters and of reduced gradients as the row states them, None if it
    does not. `raw` keeps the cells for what only one engine or machine asks for. `defaults` are the
    blanks that were filled while reading.
    """

    row_id: str
    source_id: str
    split: str
    simulatable: str
    suite: str
    scaling_group: str | None
    gpu: str | None
    n_gpus: int
    gpus_per_node: int
    framework: str
    zero_stage: int
    shard_group: int
    sizes: Sizes
    micro_batch: int
    grad_accum: int
    precision: str
    wire: tuple[str | None, str | None]
    measured_s: float
    raw: Cells
    defaults: tuple[Default, ...]

    @property
    def tokens(self) -> int:
        """Tokens of one rank and step."""
        return self.micro_batch * self.grad_accum * self.sizes.seq

    @property
    def model_flops(self) -> float:
        """Model FLOPs of one rank and step: (6 params + 12 layers hidden seq) a token."""
        s = self.sizes
        return (6 * s.params + 12 * s.layers * s.hidden * s.seq) * self.tokens

    def refused(self, why: str) -> MeasurementError:
        """The sentence that leaves this row out."""
        return MeasurementError(f"row {self.row_id}: {why}")


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A row that is not scored, and the sentence that says why; `wanted`: it was meant to be."""

    row_id: str
    source_id: str
    sentence: str
    wanted: bool


def read_steps(path: Path) -> tuple[tuple[StepRow, ...], tuple[LeftOut, ...]]:
    """The rows of a file of steps that are to be scored, and those that are left out with why.

    Raises MeasurementError for a file that cannot be read at all.
    """
    return step_rows(read_cells(path, columns=("n_gpus", "seq_len")))


def step_rows(every: Iterable[Cells]) -> tuple[tuple[StepRow, ...], tuple[LeftOut, ...]]:
    """As `read_steps`, from cells."""
    rows: list[StepRow] = []
    left_out: list[LeftOut] = []
    for cells in every:
        unused = _unused(cells)
        source = cells.text("source_id") or "unnamed source"
        if unused is not None:
            left_out.append(LeftOut(cells.row_id, source, unused, wanted=False))
            continue
        try:
            rows.append(step_row(cells))
        except MeasurementError as error:
            left_out.append(LeftOut(cells.row_id, source, str(error), wanted=True))
    return tuple(rows), tuple(left_out)


def calib(rows: Iterable[StepRow], suite: str | None = None) -> tuple[StepRow, ...]:
    """Complete rows that constants may be fitted on; with `suite`, those of it."""
    return tuple(
        row
        for row in rows
        if row.split == "calib"
        and row.simulatable == "yes"
        and suite in (None, row.suite)
        and row.grad_accum <= MAX_FITTED
    )


def _unused(cells: Cells) -> str | None:
    """Why a row is not meant to be scored; None if it is."""
    simulatable = cells.text("simulatable") or "yes"
    split = cells.text("split") or "test"
    why = cells.text("split_reason") or "no reason given"
    if simulatable not in SIMULATABLE:
        return f"row {cells.row_id}: simulatable is '{simulatable}' ({why})"
    if split not in SPLITS:
        return f"row {cells.row_id}: split is '{split}' ({why})"
    return None


def step_row(given: Cells) -> StepRow:
    """Read one row. Raises MeasurementError, naming the cell, for what cannot be read or completed."""
    _refuse_other_parallelism(given)
    cells, defaults = completed(given)
    n_gpus, sizes = cells.needed("n_gpus"), _sizes(cells)
    stage = cells.whole("zero_stage", least=0, most=_STAGE_3) or 0
    micro_batch, grad_accum = _batch(cells, n_gpus)
    return StepRow(
        row_id=cells.row_id,
        source_id=cells.filled["source_id"],
        split=cells.filled["split"],
        simulatable=cells.filled["simulatable"],
        suite=cells.text("suite") or "",
        scaling_group=cells.text("scaling_group"),
        gpu=cells.text("gpu"),
        n_gpus=n_gpus,
        gpus_per_node=cells.whole("gpus_per_node", most=_MOST_PER_NODE) or 1,
        framework=cells.filled["framework"],
        zero_stage=stage,
        shard_group=cells.whole("shard_group", most=n_gpus) or (n_gpus if stage else 1),
        sizes=sizes,
        micro_batch=micro_batch,
        grad_accum=grad_accum,
        precision=cells.filled["precision"],
        wire=(cells.text("ag_dtype"), cells.text("rs_dtype")),
        measured_s=_measured(cells, n_gpus, micro_batch * grad_accum * sizes.seq),
        raw=cells,
        defaults=defaults,
    )


def _refuse_other_parallelism(cells: Cells) -> None:
    for column in ("tp", "pp", "cp"):
        if (cells.whole(column) or 1) > 1:
            raise cells.bad(column, "only data parallelism is simulated; leave the row out")
    offload = cells.text("offload") or "no"
    if offload.lower() not in ("no", "none", "false"):
        raise cells.bad("offload", "offload is not simulated; leave the row out")


def _sizes(cells: Cells) -> Sizes:
    heads = cells.needed("heads")
    params = cells.positive("params")
    if params is None:
        raise MeasurementError(f"row {cells.row_id}: params is blank: give the parameter count")
    return Sizes(
        params=params,
        layers=cells.needed("layers"),
        hidden=cells.needed("hidden"),
        heads=heads,
        kv_heads=cells.whole("kv_heads") or heads,
        ffn=cells.needed("ffn"),
        vocab=cells.needed("vocab"),
        seq=cells.needed("seq_len"),
    )


def _batch(cells: Cells, n_gpus: int) -> tuple[int, int]:
    """Micro-batch and accumulation; one of them may follow from the global batch."""
    micro, accumulated = cells.whole("micro_batch"), cells.whole("grad_accum")
    total = cells.whole("global_batch")
    if micro is None and total is not None and accumulated is not None:
        micro = _quotient(cells, total, n_gpus * accumulated)
    if micro is None:
        raise MeasurementError(
            f"row {cells.row_id}: micro_batch is blank: give it, or global_batch and grad_accum"
        )
    if accumulated is None:
        accumulated = 1 if total is None else _quotient(cells, total, n_gpus * micro)
    if total is not None and total != micro * accumulated * n_gpus:
        raise cells.bad(
            "global_batch", f"{micro} x {accumulated} x {n_gpus} GPUs is another; mend one of them"
        )
    return micro, accumulated


def _quotient(cells: Cells, total: int, by: int) -> int:
    if total % by:
        raise cells.bad("global_batch", f"it is no multiple of {by}; mend the row")
    return total // by


def _measured(cells: Cells, n_gpus: int, tokens: int) -> float:
    """Seconds of a step: as given, else tokens of a rank over its tokens a second."""
    seconds, rate = cells.positive("step_time_s", _MAX_STEP_S), cells.positive("tok_s_gpu")
    if seconds is not None:
        return seconds
    if rate is None:
        raise MeasurementError(
            f"row {cells.row_id}: step_time_s and tok_s_gpu are blank: nothing was measured "
            f"on its {n_gpus} GPUs"
        )
    if tokens / rate > _MAX_STEP_S:
        raise cells.bad("tok_s_gpu", f"{tokens} tokens a rank then take over a day; mend the row")
    return tokens / rate
