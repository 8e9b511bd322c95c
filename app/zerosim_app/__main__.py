"""Serves the dashboard: `python -m zerosim_app LIBRARY [--host H] [--port P]`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import waitress

from zerosim.errors import InputError, ZerosimError
from zerosim_app.factory import create_app

_THREADS: Final = 8


def serve(library: Path, host: str = "127.0.0.1", port: int = 8050) -> None:
    """Serve until interrupted, and print the address first. Raises InputError if the port is taken."""
    app = create_app(library)
    try:
        server = waitress.create_server(app.server, host=host, port=port, threads=_THREADS)
    except OSError as error:
        raise InputError(
            f"cannot listen on {host}:{port} ({error.strerror}): choose another --port"
        ) from None
    sys.stdout.write(f"zerosim dashboard: http://{host}:{server.effective_port}\n")
    sys.stdout.flush()
    server.run()


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m zerosim_app", description=__doc__)
    parser.add_argument("library", nargs="?", type=Path, default=Path("runs"))
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8050)
    given = parser.parse_args(arguments)
    try:
        serve(given.library, given.host, given.port)
    except ZerosimError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
