"""Choosing a run: the user's own first, then the examples."""

from __future__ import annotations

import dash_mantine_components as dmc

from zerosim_app.components.attributes import wild
from zerosim_app.shelf import shelf


def run_select(id_: str, chosen: str | None, label: str = "Run") -> dmc.Select:
    """A searchable list of the runs that can be read."""
    entries = [entry for entry in shelf().entries() if entry.meta is not None]
    own = [{"value": e.id, "label": e.id} for e in entries if not e.is_example]
    examples = [{"value": e.id, "label": e.id} for e in entries if e.is_example]
    groups = [("Your runs", own), ("Examples", examples)]
    return dmc.Select(
        id=id_,
        data=[{"group": name, "items": items} for name, items in groups if items],
        value=chosen,
        searchable=True,
        allowDeselect=False,
        placeholder="Choose a run",
        nothingFoundMessage="No such run",
        w=300,
        maxDropdownHeight=320,
        **wild({"aria-label": label}),
    )
