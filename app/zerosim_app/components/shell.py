"""What stands around every page: the header, the theme switch and the keyboard help."""

from __future__ import annotations

from typing import Final

import dash
import dash_mantine_components as dmc
from dash import ClientsideFunction, Dash, Input, Output, State, dcc, html

from zerosim_app.components.attributes import wild

NAV: Final = (
    ("Start", "/"),
    ("Learn", "/learn/zero3"),
    ("Simulate", "/simulate"),
    ("Explore", "/explore"),
    ("Compare", "/compare"),
    ("Runs", "/runs"),
    ("Accuracy", "/accuracy"),
)
_BLUE: Final = (
    "#eef2fa",
    "#dbe3f1",
    "#b5c5e3",
    "#8ca6d6",
    "#6a8bcb",
    "#557ac5",
    "#41619E",
    "#385a9b",
    "#2f4f8b",
    "#22407a",
)  # fmt: skip - ten shades of the forward blue, light to dark, as Mantine wants them
THEME: Final = {
    "primaryColor": "zs",
    "primaryShade": {"light": 6, "dark": 5},
    "colors": {"zs": list(_BLUE)},
    "defaultRadius": "md",
    "fontFamily": "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', sans-serif",
    "fontFamilyMonospace": "ui-monospace, 'SF Mono', Menlo, Consolas, 'DejaVu Sans Mono', monospace",
    "headings": {"fontWeight": "650"},
}
_HELP: Final = (
    (
        "Everywhere",
        ((("?",), "show or hide this help"), (("Esc",), "close, or clear the selection")),
    ),
    (
        "Lesson",
        (
            (("←", "→"), "previous, next step"),
            (("Home", "End"), "first, last step"),
            (("Space",), "play or pause"),
        ),
    ),
    (
        "Timeline (when it has the focus)",
        (
            (("W", "S"), "zoom in, out at the cursor; so do + and -, and the wheel"),
            (("A", "D"), "move left, right; so do ← and →, and dragging"),
            (("↑", "↓"), "scroll the rows"),
            (("F",), "fit the selection, or else the step"),
            (("Home",), "fit the step"),
            ((",", "."), "previous, next span on the row"),
            (("Space",), "play or pause the cursor"),
            (("Shift",), "with a drag, or a drag on the ruler: measure an area"),
        ),
    ),
)


def shell() -> dmc.MantineProvider:
    """The frame of the app; the page stands in the main part."""
    return dmc.MantineProvider(
        id="mantine",
        theme=THEME,
        defaultColorScheme="auto",
        children=[
            dcc.Location(id="where", refresh="callback-nav"),
            dcc.Store(id="theme-choice", storage_type="local", data="auto"),
            dcc.Store(id="theme", data="light"),
            html.A("Skip to the page", href="#page", className="zs-skip"),
            _header(),
            html.Main(dash.page_container, id="page", className="zs-page", tabIndex=-1),
            _help(),
        ],
    )


def _header() -> html.Header:
    links = [
        dcc.Link(name, href=href, className="zs-nav", id=f"nav-{name.lower()}")
        for name, href in NAV
    ]
    mark = html.Span(
        [html.I(), html.I(), html.I()], className="zs-mark", **wild({"aria-hidden": "true"})
    )
    theme = dmc.SegmentedControl(
        id="theme-switch",
        data=[{"value": v, "label": v.capitalize()} for v in ("auto", "light", "dark")],
        value="auto",
        size="xs",
        **wild({"aria-label": "Colour theme"}),
    )
    help_button = dmc.ActionIcon(
        "?", id="help-open", variant="default", size="md", **wild({"aria-label": "Keyboard help"})
    )
    return html.Header(
        [
            dcc.Link([mark, "zerosim"], href="/", className="zs-name"),
            html.Nav(links, className="zs-navs", **wild({"aria-label": "Pages"})),
            html.Div([theme, help_button], className="zs-tools"),
        ],
        className="zs-header",
    )


def _help() -> dmc.Modal:
    sections = [
        html.Section(
            [
                html.H3(title, className="zs-h3"),
                html.Dl([part for keys, does in rows for part in _key(keys, does)]),
            ]
        )
        for title, rows in _HELP
    ]
    return dmc.Modal(
        sections, id="help", title="Keyboard", centered=True, opened=False, className="zs-help"
    )


def _key(keys: tuple[str, ...], does: str) -> tuple[html.Dt, html.Dd]:
    return html.Dt([dmc.Kbd(key) for key in keys]), html.Dd(does)


def register(app: Dash) -> None:
    """The header's behaviour; all of it runs in the browser (assets/05_shell.js)."""
    app.clientside_callback(
        ClientsideFunction("zs", "theme"),
        Output("mantine", "forceColorScheme"),
        Output("theme", "data"),
        Output("theme-switch", "value"),
        Output("theme-choice", "data"),
        Input("theme-switch", "value"),
        Input("theme-choice", "modified_timestamp"),
        State("theme-choice", "data"),
    )
    app.clientside_callback(
        ClientsideFunction("zs", "nav"),
        *(Output(f"nav-{name.lower()}", "className") for name, _ in NAV),
        Input("where", "pathname"),
    )
    app.clientside_callback(
        ClientsideFunction("zs", "help"),
        Output("help", "opened"),
        Input("help-open", "n_clicks"),
        State("help", "opened"),
        prevent_initial_call=True,
    )
