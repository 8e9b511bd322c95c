"""The dashboard answers its own pages only: not rebound names, not other origins, not frames."""

from __future__ import annotations

import pytest
from dash import Dash

from zerosim_app.factory import create_app
from zerosim_app.shelf import Shelf

OWN = ["localhost", "localhost:8050", "127.0.0.1:8050", "127.0.0.1", "[::1]:8050", "10.0.0.7:80"]
FOREIGN = ["evil.example", "evil.example:8050", "localhost.evil.example", "127.0.0.1.evil.example"]


@pytest.mark.parametrize("host", OWN)
def test_this_machine_is_answered_by_number_and_as_localhost(app: Dash, host: str) -> None:
    assert app.server.test_client().get("/healthz", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize("host", [*FOREIGN, "", "[::1", "a b"])
@pytest.mark.parametrize(
    "path", ["/", "/healthz", "/api/runs/mine/timeline.json", "/assets/zs.css"]
)
def test_a_name_that_was_rebound_to_this_machine_gets_nothing(
    app: Dash, host: str, path: str
) -> None:
    answer = app.server.test_client().get(path, headers={"Host": host})
    assert answer.status_code in (400, 403), answer.data
    assert b"steps" not in answer.data


def test_the_name_it_was_told_to_listen_on_is_its_own(shelf: Shelf) -> None:
    client = create_app(shelf.library, host="lab.example").server.test_client()
    assert client.get("/healthz", headers={"Host": "Lab.example:80"}).status_code == 200
    assert client.get("/healthz", headers={"Host": "evil.example"}).status_code == 403


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example",
        "null",
        "http://[::1",
        "",
        "http://localhost:9",
        "http://localhost.evil.example",
    ],
)
def test_another_origin_may_not_change_anything(app: Dash, shelf: Shelf, origin: str) -> None:
    answer = app.server.test_client().post(
        "/_dash-update-component", json={}, headers={"Host": "localhost:8050", "Origin": origin}
    )
    assert answer.status_code == 403
    assert answer.get_data(as_text=True).endswith(
        "may change nothing here: use the dashboard's own pages\n"
    )
    assert (shelf.library / "mine" / "run.json").is_file()


@pytest.mark.parametrize("headers", [{}, {"Origin": "http://localhost:8050"}])
def test_its_own_pages_and_the_shell_may_ask(app: Dash, headers: dict[str, str]) -> None:
    answer = app.server.test_client().post("/healthz", headers={"Host": "localhost:8050"} | headers)
    assert answer.status_code == 405  # it got past the guard, to a route that only reads


def test_no_page_may_be_framed_or_taken_for_another_type(app: Dash) -> None:
    headers = app.server.test_client().get("/runs").headers
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Content-Security-Policy"] == "frame-ancestors 'none'"
