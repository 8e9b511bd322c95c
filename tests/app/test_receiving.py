"""The routes that take files: a drop in slices, and a sentence for everything else."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from dash import Dash
from werkzeug.test import Client

from zerosim_app.factory import create_app
from zerosim_app.receiving import SLICE_BYTES
from zerosim_app.uploads import Uploads


@pytest.fixture(name="app")
def _app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Dash:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return create_app(tmp_path / "runs", max_upload_bytes=3 * SLICE_BYTES)


def begin(client: Client, *files: tuple[str, int]) -> str:
    announced = [{"name": name, "size": size} for name, size in files]
    answer = client.post("/api/uploads", json={"files": announced})
    said: dict[str, Any] = answer.get_json()
    assert answer.status_code == 201, said
    assert said["slice_bytes"] == 8 * 2**20
    return str(said["id"])


def uploads_of(app: Dash) -> Uploads:
    found: Uploads = app.server.config["ZEROSIM_UPLOADS"]
    return found


def test_a_file_comes_in_slices(app: Dash) -> None:
    client = app.server.test_client()
    one = begin(client, ("a.json", SLICE_BYTES + 3))
    first = client.put(f"/api/uploads/{one}/0?at=0", data=b"x" * SLICE_BYTES)
    assert (first.status_code, first.json) == (200, {"received": SLICE_BYTES})
    last = client.put(f"/api/uploads/{one}/0?at={SLICE_BYTES}", data=b"end")
    assert (last.status_code, last.json) == (200, {"received": SLICE_BYTES + 3})
    with uploads_of(app).taken(one) as upload:
        assert upload.paths[0].read_bytes() == b"x" * SLICE_BYTES + b"end"


def test_a_slice_that_came_before_is_not_put_twice(app: Dash) -> None:
    client = app.server.test_client()
    one = begin(client, ("a.json", 10))
    client.put(f"/api/uploads/{one}/0?at=0", data=b"abcd")
    again = client.put(f"/api/uploads/{one}/0?at=0", data=b"abcd")
    assert (again.status_code, again.json) == (200, {"received": 4})


def test_a_slice_out_of_order_is_told_what_is_next(app: Dash) -> None:
    client = app.server.test_client()
    one = begin(client, ("a.json", 10))
    client.put(f"/api/uploads/{one}/0?at=0", data=b"abcd")
    answer = client.put(f"/api/uploads/{one}/0?at=6", data=b"ghij")
    assert answer.status_code == 409
    assert answer.json == {"error": "byte 4 is next, not 6", "received": 4}


@pytest.mark.parametrize(
    "asked",
    [
        None,
        [],
        {"files": "a"},
        {"files": [1]},
        {"files": [{"name": "a"}]},
        {"files": [{"name": 3, "size": 3}]},
        {"files": [{"name": "a", "size": -1}]},
        {"files": [{"name": "a", "size": True}]},
        {"files": [{"name": "a", "size": 1.5}]},
        {"files": [{"name": "a", "size": 3 * SLICE_BYTES + 1}]},
        {"files": []},
    ],
)
def test_what_cannot_come_is_refused_in_a_sentence(app: Dash, tmp_path: Path, asked: Any) -> None:
    answer = app.server.test_client().post("/api/uploads", json=asked)
    assert answer.status_code == 400
    assert ": " in answer.json["error"]
    assert list(tmp_path.rglob("*/*")) == []


def test_no_json_is_refused_too(app: Dash) -> None:
    answer = app.server.test_client().post("/api/uploads", data=b"{{")
    assert answer.json == {"error": "say what shall come: {'files': [{'name': …, 'size': …}]}"}


@pytest.mark.parametrize(
    ("query", "nbytes", "status"),
    [
        ("", 3, 400),
        ("?at=x", 3, 400),
        ("?at=0", SLICE_BYTES + 1, 413),
        ("?at=0", 4, 400),
        ("?at=-1", 3, 409),
    ],
)
def test_a_slice_that_cannot_be_is_refused(app: Dash, query: str, nbytes: int, status: int) -> None:
    client = app.server.test_client()
    one = begin(client, ("a.json", 3))
    answer = client.put(f"/api/uploads/{one}/0{query}", data=b"x" * nbytes)
    assert answer.status_code == status
    assert answer.json["error"]
    assert uploads_of(app)._known[one].received == [0]


def test_a_slice_says_its_length_first(app: Dash) -> None:
    client = app.server.test_client()
    one = begin(client, ("a.json", 3))
    answer = client.put(
        f"/api/uploads/{one}/0?at=0",
        input_stream=io.BytesIO(b"abc"),
        headers={"Transfer-Encoding": "chunked"},
    )
    assert answer.status_code == 400


@pytest.mark.parametrize(
    "path", ["/api/uploads/0123/0", "/api/uploads/../0", "/api/uploads/{one}/1"]
)
def test_what_nobody_announced_is_not_taken(app: Dash, tmp_path: Path, path: str) -> None:
    client = app.server.test_client()
    one = begin(client, ("a.json", 3))
    assert client.put(path.format(one=one) + "?at=0", data=b"abc").status_code in (404, 405)
    assert sum(p.stat().st_size for p in tmp_path.rglob("*") if p.is_file()) == 0


def test_what_is_given_up_is_deleted(app: Dash, tmp_path: Path) -> None:
    client = app.server.test_client()
    one = begin(client, ("a.json", 3))
    assert client.delete(f"/api/uploads/{one}").status_code == 200
    assert client.put(f"/api/uploads/{one}/0?at=0", data=b"abc").status_code == 404
    assert [p for p in tmp_path.rglob("*") if p.is_file()] == []


@pytest.mark.parametrize("method", ["post", "put", "delete"])
def test_no_other_origin_may_send(app: Dash, method: str) -> None:
    client = app.server.test_client()
    one = begin(client, ("a.json", 3))
    path = {"post": "/api/uploads"}.get(method, f"/api/uploads/{one}/0?at=0")
    headers = {"Host": "localhost:8050", "Origin": "http://evil.example"}
    assert getattr(client, method)(path, headers=headers, data=b"abc").status_code == 403
    assert uploads_of(app)._known[one].received == [0]


def test_no_request_of_any_kind_may_be_bigger_than_two_slices(app: Dash) -> None:
    asked = {"json": {"inputs": "x" * 2**24}}
    assert app.server.test_client().post("/_dash-update-component", **asked).status_code == 413
