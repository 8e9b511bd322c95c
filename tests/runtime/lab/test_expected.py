"""What must cross a link: rings pass it on, pairs send each other their own part."""

from __future__ import annotations

from typing import Any

import pytest

from zerosim.trace import Meta, Trace, make_trace
from zerosim_runtime.lab.expected import Expected, expected


def _trace(kind: str, wire_bytes: int | None, n_ranks: int) -> Trace:
    """One collective of 1200 bytes over all ranks."""
    rows: list[dict[str, Any]] = [
        {
            "rank": rank,
            "kind": kind,
            "stream": "s",
            "name": "X0",
            "start_ns": 0,
            "end_ns": 1,
            "nbytes": 1200,
            "wire_bytes": wire_bytes,
        }
        for rank in range(n_ranks)
    ]
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    return make_trace(columns, Meta("hand", "measured", n_ranks))


@pytest.mark.parametrize(
    ("kind", "wire_bytes", "sent", "inside"),
    [
        ("all_gather", 900, 900, 900),
        ("all_reduce", 1800, 1800, 1800),
        ("reduce_scatter", 1800, 1800, 1800),  # Gloo's own: an all-reduce
        ("reduce_scatter", 900, 600 * 2, 300 * 2),  # made of an all-to-all
        ("all_to_all", 900, 600 * 2, 300 * 2),
    ],
)
def test_two_nodes_of_two_ranks(kind: str, wire_bytes: int, sent: int, inside: int) -> None:
    """AG 0.75/0.75, AR 1.5/1.5, pairs 1.0/0.5 of the buffer: by uplink and inside."""
    assert expected(_trace(kind, wire_bytes, 4), 2) == (Expected(sent, inside, 0),) * 2


def test_one_rank_a_node_keeps_nothing_inside() -> None:
    assert expected(_trace("all_gather", 800, 3), 1) == (Expected(800, 0, 0),) * 3


def test_one_node_sends_nothing() -> None:
    assert expected(_trace("all_gather", 900, 4), 4) == (Expected(0, 3600, 0),)


@pytest.mark.parametrize(("kind", "wire_bytes"), [("broadcast", 900), ("all_gather", None)])
def test_what_nobody_knows_is_left_out_and_said(kind: str, wire_bytes: int | None) -> None:
    assert expected(_trace(kind, wire_bytes, 2), 1) == (Expected(0, 0, 1200),) * 2
