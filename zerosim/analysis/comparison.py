"""Two runs side by side: which ops are the same, how much longer each took, where the time went."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import polars as pl

from zerosim.analysis.accounting import Accounting, account
from zerosim.analysis.skew import last_arrivals
from zerosim.analysis.steps import last_complete_step, slowest_window
from zerosim.kinds import COMMUNICATION, COMPUTE, HOST_SIDE
from zerosim.trace import Flag, Trace, flagged, of_kind

_OP: Final = ("pair", "kind", "label")


@dataclass(frozen=True, slots=True)
class Pair:
    """One rank of both runs, and the ranks whose rows stand for it in each."""

    rank: int
    source_a: int
    source_b: int


def compare(a: Trace, b: Trace) -> dict[str, Any]:
    """How `b` differs from `a` in their last complete steps, ready for JSON.

    Ops are the same if rank, kind, unit (else name) and occurrence are. Where no unit or name of a
    collective's kind occurs in both runs, as between a model and a profile, collectives of that kind
    are paired in issue order; kernels of different names are not the same op. Times
    of collectives count from the arrival of the last member. `residuals` (b minus a) are summed
    over the occurrences, largest first.
    """
    pairs = pair_ranks(a, b)
    left, right = _ops(a, [p.source_a for p in pairs]), _ops(b, [p.source_b for p in pairs])
    both = _match(left, right)
    accounts = {"a": _accounts(account(a)), "b": _accounts(account(b))}
    matched, total = both.height, left.height + right.height - both.height
    return {
        "a": a.meta.name,
        "b": b.meta.name,
        "matched": matched,
        "only_a": left.height - matched,
        "only_b": right.height - matched,
        "matched_share": matched / total if total else None,
        "step_ratio": _ratio(a, b),
        "accounting": accounts,
        "residuals": _residuals(both, pairs),
    }


def pair_ranks(a: Trace, b: Trace) -> tuple[Pair, ...]:
    """The ranks to compare: those of both runs; if there are none, in order, first with first.

    Ranks that are stood for by the same rows on both sides are compared once.
    """
    of_a, of_b = _sources(a), _sources(b)
    common = [(rank, rank) for rank in sorted(of_a.keys() & of_b.keys())]
    chosen = common or list(zip(sorted(of_a), sorted(of_b), strict=False))
    seen: dict[tuple[int, int], Pair] = {}
    for rank, other in chosen:
        sources = (of_a[rank], of_b[other])
        seen.setdefault(sources, Pair(rank, *sources))
    return tuple(seen.values())


def _sources(trace: Trace) -> dict[int, int]:
    present = set(trace.ranks)
    members = {
        r: c.representative
        for c in trace.meta.classes
        if c.representative in present
        for r in c.ranks
    }
    return {**members, **{rank: rank for rank in present}}


def _ops(trace: Trace, sources: list[int]) -> pl.DataFrame:
    step = last_complete_step(trace)
    in_step = pl.lit(True) if step is None else pl.col("step") == step
    rows = (
        last_arrivals(trace.spans)
        .filter(
            in_step
            & pl.col("rank").is_in(sources)
            & ~of_kind(HOST_SIDE)
            & ~flagged(Flag.UNTIMED | Flag.UNFINISHED)
        )
        .select(
            "rank",
            pl.col("kind", "unit", "name").cast(pl.String),
            "micro_batch",
            (pl.col("end_ns") - pl.col("arrived_ns")).alias("ns"),
        )
        .with_columns(label=pl.coalesce("unit", "name"))
    )
    places = pl.DataFrame(
        {"rank": sources, "pair": range(len(sources))}, schema={"rank": pl.Int32, "pair": pl.Int64}
    )
    joined = _whole_layers(rows).join(places, on="rank", how="inner", maintain_order="left_right")
    return joined.with_columns(
        nth=pl.int_range(pl.len()).over(_OP),
        nth_of_kind=pl.int_range(pl.len()).over("pair", "kind"),
    )


def _whole_layers(rows: pl.DataFrame) -> pl.DataFrame:
    """A layer's computation as one op, for a profile shows it as many and a model as one."""
    layer = pl.col("unit").is_not_null() & of_kind(COMPUTE)
    alone = pl.when(layer).then(None).otherwise(pl.int_range(pl.len()))
    keys = ("rank", "kind", "label", "micro_batch", "alone")
    merged = rows.with_columns(alone=alone).group_by(keys, maintain_order=True)
    return merged.agg(pl.col("ns").sum()).select("rank", "kind", "label", "ns")


def _match(left: pl.DataFrame, right: pl.DataFrame) -> pl.DataFrame:
    named = left.join(right, on=[*_OP, "nth"], how="inner", suffix="_b")
    collective = of_kind(COMMUNICATION)
    unnamed = collective & ~pl.col("kind").is_in(named["kind"].unique().to_list())
    ordered = left.filter(unnamed).join(
        right.filter(unnamed), on=["pair", "kind", "nth_of_kind"], how="inner", suffix="_b"
    )
    columns = ["pair", "kind", "label", "ns", "ns_b"]
    return pl.concat([named.select(columns), ordered.select(columns)])


def _residuals(both: pl.DataFrame, pairs: tuple[Pair, ...]) -> list[dict[str, Any]]:
    ranks = pl.DataFrame(
        {"pair": range(len(pairs)), "rank": [p.rank for p in pairs]},
        schema={"pair": pl.Int64, "rank": pl.Int64},
    )
    table = (
        both.group_by(_OP)
        .agg(a_ns=pl.col("ns").sum(), b_ns=pl.col("ns_b").sum())
        .with_columns(delta_ns=pl.col("b_ns") - pl.col("a_ns"))
        .join(ranks, on="pair")
        .sort(
            pl.col("delta_ns").abs(),
            "rank",
            "kind",
            "label",
            descending=[True, False, False, False],
        )
    )
    return table.select(
        pl.col("label").alias("unit"), "kind", "rank", "a_ns", "b_ns", "delta_ns"
    ).to_dicts()


def _ratio(a: Trace, b: Trace) -> float | None:
    windows = [slowest_window(t, last_complete_step(t)) for t in (a, b)]
    lengths = [w.end_ns - w.start_ns if w else 0 for w in windows]
    return lengths[1] / lengths[0] if all(lengths) else None


def _accounts(found: Accounting | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {
        "compute_ns": found.compute_ns,
        "exposed_ns": dict(found.exposed_ns),
        "wait_ns": found.wait_ns,
        "launch_ns": found.launch_ns,
        "optimizer_ns": found.optimizer_ns,
        "idle_ns": found.idle_ns,
    }
