"""Who may ask: pages of other sites can make a browser talk to this machine, so they are turned away."""

from __future__ import annotations

import ipaddress
from typing import Final
from urllib.parse import urlsplit

import flask

_READING: Final = ("GET", "HEAD", "OPTIONS")
_HEADERS: Final = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Content-Security-Policy": "frame-ancestors 'none'",
    "Referrer-Policy": "same-origin",
}
"""No other page may show this one in a frame and have its buttons clicked."""


def guard(server: flask.Flask, host: str) -> None:
    """Let `server`, which listens on `host`, answer its own pages only.

    A request for another host's name is one whose name was rebound to this machine; a change that
    another origin asks for is one its user never saw. Both get 403 and a sentence.
    """

    @server.before_request
    def refuse() -> flask.Response | None:
        if "Host" not in flask.request.headers:
            return None  # no browser leaves it out
        asked = flask.request.host
        if not _is_ours(asked, host):
            return _refusal(f"'{asked[:80]}' is not this dashboard: ask for it as localhost")
        origin = flask.request.headers.get("Origin")
        if flask.request.method in _READING or origin in (None, *_pages(asked)):
            return None
        return _refusal(
            f"'{str(origin)[:80]}' may change nothing here: use the dashboard's own pages"
        )

    @server.after_request
    def harden(response: flask.Response) -> flask.Response:
        for name, value in _HEADERS.items():
            response.headers.setdefault(name, value)
        return response


def _pages(asked: str) -> tuple[str, str]:
    """The origins of pages that came from where the request goes."""
    return f"http://{asked}", f"https://{asked}"


def _is_ours(asked: str, host: str) -> bool:
    """Whether `asked` names this machine by number, as localhost, or as it was told to listen."""
    name = (urlsplit(f"//{asked}").hostname or "").casefold()
    if name in ("localhost", host.casefold()):
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _refusal(sentence: str) -> flask.Response:
    return flask.Response(f"{sentence}\n", status=403, mimetype="text/plain")
