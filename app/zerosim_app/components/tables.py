"""Tables: ag-grid in our look, with times and bytes shown as people read them and sorted as numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import dash_ag_grid as dag
from dash import html

from zerosim_app.components.attributes import wild

Show = Literal["text", "kind", "ns", "bytes", "rate", "count", "percent", "ratio", "points"]
_THEME: Final = (
    "themeQuartz.withParams({backgroundColor: 'var(--zs-surface)', foregroundColor: 'var(--zs-ink)',"
    " headerTextColor: 'var(--zs-muted)', headerBackgroundColor: 'var(--zs-surface)',"
    " borderColor: 'var(--zs-border)', accentColor: 'var(--zs-accent)', fontFamily: 'inherit',"
    " headerFontWeight: 550, fontSize: 13, spacing: 6, wrapperBorderRadius: 10,"
    " wrapperBorder: true, rowHoverColor: 'var(--zs-back)', browserColorScheme: 'inherit'})"
)
ROW_PX: Final = 34
HEAD_PX: Final = 40


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its field, its head, how values are shown; `wide` takes the room that is left.

    `parts`: how many times the room of a plain column it takes; `told`: the pointer shows all of it.
    """

    field: str
    title: str
    show: Show = "text"
    wide: bool = False
    tip: str | None = None
    parts: int | None = None
    told: bool = False


def table(
    id_: str,
    columns: Sequence[Column],
    rows: Sequence[dict[str, Any]],
    *,
    label: str,
    max_rows: int = 12,
    options: dict[str, Any] | None = None,
    **more: Any,  # noqa: ANN401 - ag-grid's own properties
) -> html.Div:
    """An ag-grid as high as its rows, up to `max_rows`; unknown values read as `unknown`.

    A row with `moves` false is of an op that moves nothing: its empty cells stay empty.
    """
    grid = dag.AgGrid(
        id=id_,
        columnDefs=[_definition(column) for column in columns],
        rowData=list(rows),
        className="zs-grid",
        dashGridOptions={
            "theme": {"function": _THEME},
            "rowHeight": ROW_PX,
            "headerHeight": HEAD_PX,
            "animateRows": False,
            "suppressCellFocus": False,
            "enableCellTextSelection": True,
            **(options or {}),
        },
        defaultColDef={"sortable": True, "resizable": True, "minWidth": 84},
        style=size(len(rows), max_rows),
        **more,
    )
    return html.Div(grid, role="region", **wild({"aria-label": label}))


def size(n_rows: int, max_rows: int = 12) -> dict[str, str]:
    """The style of a table that is as high as its rows, up to `max_rows`."""
    shown = max(2, min(n_rows, max_rows))
    return {"height": f"{HEAD_PX + shown * ROW_PX + 6}px", "width": "100%"}


def _definition(column: Column) -> dict[str, Any]:
    definition: dict[str, Any] = {"field": column.field, "headerName": column.title}
    if column.tip:
        definition["headerTooltip"] = column.tip
    if column.show not in ("text", "kind"):
        definition["type"] = "rightAligned"
    if column.show != "text":
        definition["valueFormatter"] = {"function": f"zs_{column.show}(params.value, params.data)"}
    if column.told:
        definition["tooltipField"] = column.field
    definition["flex"] = column.parts or (2 if column.wide else 1)
    return definition
