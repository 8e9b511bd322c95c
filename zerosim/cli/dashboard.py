"""`zerosim dashboard`: the web app, on this machine."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from zerosim.cli.options import Library

Host = Annotated[str, typer.Option("--host", help="The address to listen on.")]
Port = Annotated[int, typer.Option("--port", min=0, max=65535, help="The port; 0 picks one.")]


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("dashboard")(dashboard)


def dashboard(library: Library = Path("runs"), host: Host = "127.0.0.1", port: Port = 8050) -> None:
    """Serve the dashboard: your runs and the examples.

    It listens on this machine only, unless --host says otherwise. Ctrl-C stops it.
    """
    # By name: the simulator stands without the app, and starts without importing it.
    import_module("zerosim_app.__main__").serve(library, host, port)
