"""Tables keep numbers as numbers; only their look has units."""

from __future__ import annotations

from typing import Any

from zerosim_app.components.tables import Column, size, table

ROWS: list[dict[str, Any]] = [
    {"kind": "all_gather", "took": 1_500_000},
    {"kind": "forward", "took": None},
]


def test_rows_keep_their_numbers(tree: Any) -> None:
    made = tree(table("t", [Column("took", "Took", "ns")], ROWS, label="Ops"))
    assert made.by_id("t").rowData == ROWS
    (column,) = made.by_id("t").columnDefs
    assert column["valueFormatter"] == {"function": "zs_ns(params.value, params.data)"}
    assert column["type"] == "rightAligned"


def test_text_stays_left_and_unformatted(tree: Any) -> None:
    made = tree(table("t", [Column("kind", "Kind", wide=True)], ROWS, label="Ops"))
    assert made.by_id("t").columnDefs == [{"field": "kind", "headerName": "Kind", "flex": 2}]


def test_a_table_is_a_named_region(tree: Any) -> None:
    made = table("t", [], [], label="Ops of rank 3")
    assert getattr(made, "aria-label") == "Ops of rank 3"
    assert made.to_plotly_json()["props"]["role"] == "region"
    assert tree(made).ids() == {"t"}


def test_a_table_is_as_high_as_its_rows_up_to_a_limit() -> None:
    assert size(0)["height"] == size(2)["height"] == "114px"
    assert size(10)["height"] == "386px"
    assert size(1000, 12)["height"] == size(12, 12)["height"]
