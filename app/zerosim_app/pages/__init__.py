"""The pages: each module has `layout(**query)` and `register(app)`, and they are listed here."""

from __future__ import annotations

from dash import Dash

from zerosim_app.pages import compare, explore, learn, runs, start


def register(app: Dash) -> None:
    """Put every page and its callbacks into `app`."""
    for page in (start, learn, explore, compare, runs):
        page.register(app)
