"""The scoreboard: every measured row beside its prediction, scored by suite, source, GPU, size and count."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from zerosim.validation.null import Null, fitted
from zerosim.validation.predict import Predicted, predict
from zerosim.validation.rows import LeftOut, StepRow
from zerosim.validation.scaling import Efficiency, Points, efficiencies, points
from zerosim.validation.score import (
    SLICES,
    Errors,
    Scored,
    Shared,
    by_fact,
    errors,
    null_ratio,
    shared,
    worst,
)
from zerosim.validation.trial import AS_SHIPPED, Trial


@dataclass(frozen=True, slots=True)
class Peer:
    """What others' programs reach on published runs, beside which ours stands."""

    name: str
    rows: str
    mean: float
    source: str


PEERS: Final = (
    Peer("best runnable peer", "67 multi-node FSDP rows", 0.148, "zerosim's issue 4"),
    Peer("every FLOP takes the same time", "67 multi-node FSDP rows", 0.149, "zerosim's issue 4"),
    Peer("a roofline of 40 lines", "67 multi-node FSDP rows", 0.055, "zerosim's issue 4"),
)


@dataclass(frozen=True, slots=True)
class Slice:
    """Rows that have one value of a fact, and their errors beside the null model's."""

    fact: str
    value: str
    errors: Errors
    null: Errors | None


@dataclass(frozen=True, slots=True)
class Suite:
    """A set of rows that is scored together; `says` which rows these are."""

    name: str
    says: str
    errors: Errors
    null: Errors | None
    slices: tuple[Slice, ...]
    worst: tuple[str, ...]
    shared: tuple[Shared, ...]
    scaling: Points | None


@dataclass(frozen=True, slots=True)
class Scoreboard:
    """All of it. `worst` of a suite are row ids, largest error first; `filled` counts defaults."""

    rows: tuple[Scored, ...]
    left_out: tuple[LeftOut, ...]
    suites: tuple[Suite, ...]
    efficiencies: tuple[Efficiency, ...]
    null: Null
    filled: tuple[tuple[str, int], ...]
    peers: tuple[Peer, ...] = PEERS

    def suite(self, name: str) -> Suite | None:
        """The suite of that name; None if no row belongs to it."""
        return next((suite for suite in self.suites if suite.name == name), None)


def _yes(row: Scored) -> bool:
    return row.simulatable == "yes"


_SUITES: Final[tuple[tuple[str, str, Callable[[Scored], bool]], ...]] = (
    (
        "core-holdout",
        "complete rows that nothing was fitted on",
        lambda r: _yes(r) and r.split == "test" and r.suite == "core-holdout",
    ),
    (
        "mosaicml",
        "of these, MosaicML's FSDP runs",
        lambda r: (
            _yes(r)
            and r.split == "test"
            and r.suite == "core-holdout"
            and r.source_id.startswith("llmfoundry")
        ),
    ),
    (
        "multi-node-fsdp",
        "FSDP over several nodes that nothing was fitted on",
        lambda r: (
            _yes(r)
            and r.split == "test"
            and "fsdp" in r.facts["framework"].lower()
            and r.facts["nodes"] != "1"
        ),
    ),
    (
        "test",
        "all complete rows that nothing was fitted on",
        lambda r: _yes(r) and r.split == "test",
    ),
    (
        "wide-holdout",
        "complete rows of the wide set that nothing was fitted on",
        lambda r: _yes(r) and r.split == "test" and r.suite.startswith("wide"),
    ),
    (
        "core-calib",
        "complete rows that constants are fitted on",
        lambda r: _yes(r) and r.split == "calib" and r.suite == "core-calib",
    ),
    (
        "calib",
        "all complete rows that constants are fitted on",
        lambda r: _yes(r) and r.split == "calib",
    ),
    (
        "partial-test",
        "incomplete rows, scored apart",
        lambda r: not _yes(r) and r.split == "test",
    ),
    (
        "partial-calib",
        "incomplete rows that constants may be fitted on",
        lambda r: not _yes(r) and r.split == "calib",
    ),
)


def scoreboard(
    rows: Sequence[StepRow],
    left_out: Sequence[LeftOut] = (),
    trial: Trial = AS_SHIPPED,
    *,
    workers: int | None = None,
) -> Scoreboard:
    """Simulate and score `rows`. `left_out` are those that reading them already refused."""
    found, failed = predict(rows, trial, workers=workers)
    return scored_board(found, (*left_out, *failed))


def scored_board(found: Sequence[Predicted], left_out: Sequence[LeftOut]) -> Scoreboard:
    """The scoreboard of rows that are simulated already."""
    null = fitted(found)
    return board_of([_scored(one, null) for one in found], left_out, null)


def board_of(scored: Sequence[Scored], left_out: Sequence[LeftOut], null: Null) -> Scoreboard:
    """The scoreboard of rows that are scored already."""
    every = efficiencies(scored)
    suites = (
        _suite(name, says, [row for row in scored if belongs(row)], every)
        for name, says, belongs in _SUITES
    )
    filled = Counter(f"{column} = {value}" for row in scored for column, value, _ in row.defaults)
    return Scoreboard(
        rows=tuple(scored),
        left_out=tuple(left_out),
        suites=tuple(suite for suite in suites if suite is not None),
        efficiencies=every,
        null=null,
        filled=tuple(filled.most_common()),
    )


def _suite(
    name: str, says: str, rows: Sequence[Scored], every: Sequence[Efficiency]
) -> Suite | None:
    total = errors(rows)
    if total is None:
        return None
    slices = []
    for fact in SLICES:
        for value, some in by_fact(rows, fact).items():
            part = errors(some)
            if part is not None:
                slices.append(Slice(fact, value, part, errors(some, null_ratio)))
    groups = {row.scaling_group for row in rows}
    mine = [e for e in every if e.group in groups and e.split == rows[0].split]
    return Suite(
        name=name,
        says=says,
        errors=total,
        null=errors(rows, null_ratio),
        slices=tuple(slices),
        worst=tuple(row.row_id for row in worst(rows)),
        shared=shared(rows),
        scaling=points(mine),
    )


_BILLIONS: Final = ((0.5, "< 0.5 B"), (2, "0.5 to 2 B"), (10, "2 to 10 B"), (40, "10 to 40 B"))


def _size(params: float) -> str:
    return next((name for limit, name in _BILLIONS if params < limit * 1e9), "≥ 40 B")


def _scored(one: Predicted, null: Null) -> Scored:
    row = one.row
    facts = {
        "source": row.source_id,
        "gpu": one.device,
        "size": _size(row.sizes.params),
        "GPUs": str(row.n_gpus),
        "model": row.raw.text("model_id") or "",
        "framework": row.framework,
        "ZeRO stage": str(row.zero_stage),
        "sequence": str(row.sizes.seq),
        "micro-batch": str(row.micro_batch),
        "accumulation": str(row.grad_accum),
        "checkpointing": row.raw.text("act_ckpt") or "",
        "precision": row.precision,
        "attention": one.scenario.workload.attention,
        "compile": row.raw.text("compile") or "",
        "nodes": str(-(-row.n_gpus // row.gpus_per_node)),
        "network": row.raw.text("inter_link") or "",
    }
    return Scored(
        row_id=row.row_id,
        source_id=row.source_id,
        split=row.split,
        suite=row.suite,
        simulatable=row.simulatable,
        scaling_group=row.scaling_group,
        n_gpus=row.n_gpus,
        tokens=row.tokens,
        predicted_s=one.seconds,
        measured_s=row.measured_s,
        null_s=null.seconds(one),
        facts=facts,
        defaults=one.defaults,
        source=row.raw.text("source") or "",
        params=row.sizes.params,
        scenario=one.scenario.told(),
    )
