"""The pages: each module has `layout(**query)` and `register(app)`, and they are listed here."""

from __future__ import annotations

from dash import Dash

from zerosim_app.pages import accuracy, compare, explore, learn, runs, simulate, start


def register(app: Dash) -> None:
    """Put every page and its callbacks into `app`."""
    for page in (start, learn, simulate, explore, compare, runs, accuracy):
        page.register(app)
