"""How many bytes of a run must cross each link of a lab, by the closed forms of its collectives.

# Note [Rings and pairs over nodes]
Gloo's rings pass everything to the next rank, so what crosses a node's uplink is what its last rank
sends, and the rest stays inside. An all-to-all, and a reduce-scatter made of one, sends each other rank
its own part, so a node of g of n ranks sends g(n-g)/n of the buffer. A broadcast goes along a tree: it is
left out, with the bytes that it may have moved.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import polars as pl

from zerosim.kinds import COMMUNICATION, Kind
from zerosim.trace import Trace

_RINGS: Final = (Kind.ALL_GATHER, Kind.ALL_REDUCE, Kind.REDUCE_SCATTER)
_PAIRS: Final = (Kind.ALL_TO_ALL,)


@dataclass(frozen=True, slots=True)
class Expected:
    """Bytes that a node must send by its uplink and inside; `unknown`: of collectives left out."""

    sent: float
    inside: float
    unknown: int


def expected(trace: Trace, ranks_per_node: int) -> tuple[Expected, ...]:
    """What each node of a run sends, payload only. See Note [Rings and pairs over nodes]."""
    n_ranks = int(trace.meta.world_size or 0)
    rows = trace.spans.filter(pl.col("kind").is_in([kind.value for kind in COMMUNICATION]))
    return tuple(
        _of_node(
            rows.filter(pl.col("rank") // ranks_per_node == node).iter_rows(named=True),
            n_ranks,
            ranks_per_node,
        )
        for node in range(n_ranks // ranks_per_node)
    )


def _of_node(rows: Iterable[dict[str, Any]], n_ranks: int, per_node: int) -> Expected:
    sent = inside = 0.0
    unknown = 0
    for row in rows:
        kind, nbytes, moved = Kind(row["kind"]), row["nbytes"], row["wire_bytes"]
        last = row["rank"] % per_node == per_node - 1
        if nbytes is None or moved is None or kind not in (*_RINGS, *_PAIRS):
            unknown += nbytes or 0
        elif _in_pairs(kind, nbytes, moved, n_ranks):
            sent += nbytes * (n_ranks - per_node) / n_ranks
            inside += nbytes * (per_node - 1) / n_ranks
        elif last and n_ranks > per_node:
            sent += moved
        else:
            inside += moved
    return Expected(sent, inside, unknown)


def _in_pairs(kind: Kind, nbytes: int, moved: int, n_ranks: int) -> bool:
    """Whether a collective went from each rank to each other: Gloo's own reduce-scatter moves twice that."""
    if kind is not Kind.REDUCE_SCATTER:
        return kind in _PAIRS
    return moved < 1.5 * nbytes * (n_ranks - 1) / n_ranks
