"""Serves the dashboard: `python -m zerosim_app LIBRARY [--host H] [--port P]`."""

from __future__ import annotations

import argparse
import signal
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import waitress

from zerosim.errors import InputError, ZerosimError
from zerosim_app.factory import create_app
from zerosim_app.receiving import MAX_BODY_BYTES

_THREADS: Final = 8


def serve(library: Path, host: str = "127.0.0.1", port: int = 8050) -> None:
    """Serve until interrupted, and print the address first.

    Raises InputError if the port is taken, or `library` is no directory.
    """
    if library.exists() and not library.is_dir():
        raise InputError(f"'{library}' is no directory of runs: give one with --library")
    if not host:
        # The empty name would be every address of this machine.
        raise InputError("the host is '': give an address such as 127.0.0.1 with --host")
    with _listening(host, port) as listener:
        app = create_app(library, host=host)
        server = waitress.create_server(
            app.server,
            sockets=[listener],
            threads=_THREADS,
            max_request_body_size=MAX_BODY_BYTES,
        )
        shown = f"[{host}]" if ":" in host else host
        sys.stdout.write(f"zerosim dashboard: http://{shown}:{listener.getsockname()[1]}\n")
        sys.stdout.flush()
        server.run()


def _listening(host: str, port: int) -> socket.socket:
    """A socket bound to the address; made here, since waitress leaves one open when it fails."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except (OSError, OverflowError) as error:
        listener.close()
        raise InputError(
            f"cannot listen on {host}:{port} ({error}): choose another --port"
        ) from None
    return listener


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
    # As Ctrl-C, so that nothing of an unfinished upload stays behind.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    raise SystemExit(main())
