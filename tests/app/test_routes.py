"""The routes: bytes and JSON of a run, cached by content, and one sentence for a wrong request."""

from __future__ import annotations

from pathlib import Path

import pytest
from flask import Flask
from flask.testing import FlaskClient

from zerosim.analysis import rows
from zerosim.errors import InputError
from zerosim.store import save_run
from zerosim.trace import Meta, RankClass, Trace, make_trace
from zerosim_app.routes import blueprint, parse_ranks
from zerosim_app.shelf import Shelf


def run_of(ranks: int = 4, end_ns: int = 50) -> Trace:
    columns = {
        "rank": [0],
        "stream": ["compute"],
        "kind": ["forward"],
        "name": ["F0"],
        "start_ns": [10],
        "end_ns": [end_ns],
    }
    classes = (RankClass(0, ((0, ranks - 1),)),)
    return make_trace(columns, Meta("made", "simulated", ranks, classes=classes))


@pytest.fixture
def library(tmp_path: Path) -> Path:
    save_run(run_of(), tmp_path / "library" / "run one")
    return tmp_path / "library"


@pytest.fixture
def client(library: Path, tmp_path: Path) -> FlaskClient:
    app = Flask("test")
    app.register_blueprint(blueprint(Shelf(library, tmp_path / "examples")))
    return app.test_client()


def test_the_server_says_that_it_is_alive(client: FlaskClient) -> None:
    answer = client.get("/healthz")
    assert (answer.status_code, answer.text) == (200, "ok\n")


def test_the_json_leads_to_the_bytes(client: FlaskClient) -> None:
    about = client.get("/api/runs/run%20one/timeline.json").get_json()
    assert about["id"] == "run one"
    assert about["ranks"] == "classes"
    spans = client.get(f"/api/runs/run%20one/{about['spans_url']}")
    assert spans.data[:4] == b"ZSPN"
    assert spans.mimetype == "application/octet-stream"
    samples = client.get(f"/api/runs/run%20one/{about['samples_url']}")
    assert samples.data[:4] == b"ZSMP"


def test_bytes_asked_for_by_their_hash_may_be_kept_for_ever(client: FlaskClient) -> None:
    about = client.get("/api/runs/run%20one/timeline.json").get_json()
    named = client.get(f"/api/runs/run%20one/{about['spans_url']}")
    assert "immutable" in named.headers["Cache-Control"]
    for query in ("", "?v=0123456789abcdef"):
        other = client.get(f"/api/runs/run%20one/spans.bin{query}")
        assert other.status_code == 200
        assert other.headers["Cache-Control"] == "no-cache"


@pytest.mark.parametrize("part", ["timeline.json", "spans.bin", "samples.bin"])
def test_unchanged_content_is_not_sent_again(client: FlaskClient, part: str) -> None:
    first = client.get(f"/api/runs/run%20one/{part}")
    again = client.get(
        f"/api/runs/run%20one/{part}", headers={"If-None-Match": first.headers["ETag"]}
    )
    assert (again.status_code, again.data) == (304, b"")


def test_a_run_that_is_written_again_is_read_again(client: FlaskClient, library: Path) -> None:
    before = client.get("/api/runs/run%20one/timeline.json").get_json()
    save_run(run_of(end_ns=5010), library / "run one")
    after = client.get("/api/runs/run%20one/timeline.json").get_json()
    assert (before["duration_ns"], after["duration_ns"]) == (40, 5000)
    assert before["spans_url"] != after["spans_url"]


@pytest.mark.parametrize(
    ("ranks", "labels"),
    [
        ("classes", ["ranks 0-3"]),
        ("all", ["rank 0", "rank 1", "rank 2", "rank 3"]),
        ("3,0-1", ["rank 0", "rank 1", "rank 3"]),
    ],
)
def test_ranks_are_chosen_by_the_query(client: FlaskClient, ranks: str, labels: list[str]) -> None:
    about = client.get(f"/api/runs/run%20one/timeline.json?ranks={ranks}").get_json()
    assert [group["label"] for group in about["groups"]] == labels


@pytest.mark.parametrize(
    ("address", "status", "sentence"),
    [
        ("/api/runs/nothing/spans.bin", 404, "no run 'nothing'"),
        ("/api/runs/..%2F..%2Fetc/spans.bin", 404, None),
        ("/api/runs/.hidden/spans.bin", 404, "'.hidden' cannot name a run"),
        ("/api/runs/run%20one/spans.bin?ranks=7", 422, "no rank 7: it has ranks 0 to 3"),
        ("/api/runs/run%20one/spans.bin?ranks=", 400, "give classes, all, or ranks"),
        ("/api/runs/run%20one/spans.bin?ranks=-1", 400, "give classes, all, or ranks"),
        ("/api/runs/run%20one/spans.bin?ranks=0-999999999", 400, "over 4096: choose fewer"),
        ("/api/runs/run%20one/other.bin", 404, None),
    ],
)
def test_a_wrong_request_gets_a_sentence(
    client: FlaskClient, address: str, status: int, sentence: str | None
) -> None:
    answer = client.get(address)
    assert answer.status_code == status
    if sentence is not None:
        assert sentence in answer.get_json()["error"]


def test_a_damaged_run_gets_a_sentence(client: FlaskClient, library: Path) -> None:
    (library / "run one" / "spans.parquet").write_bytes(b"PAR1 no more")
    answer = client.get("/api/runs/run%20one/spans.bin")
    assert answer.status_code == 422
    assert "is damaged" in answer.get_json()["error"]


def test_a_run_that_lacks_a_table_gets_a_sentence(client: FlaskClient, library: Path) -> None:
    (library / "run one" / "samples.parquet").unlink()
    answer = client.get("/api/runs/run%20one/timeline.json")
    assert answer.status_code == 404
    assert "is damaged" in answer.get_json()["error"]


def test_too_many_ranks_to_draw_get_a_sentence(
    client: FlaskClient, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "MAX_SPANS", 100)
    save_run(run_of(ranks=101), library / "huge")
    answer = client.get("/api/runs/huge/spans.bin?ranks=all")
    assert answer.status_code == 422
    assert "choose ranks with ?ranks=0,1" in answer.get_json()["error"]


def test_ranks_are_read_as_words_and_ranges() -> None:
    assert parse_ranks("classes") == "classes"
    assert parse_ranks("all") == "all"
    assert parse_ranks("5,0-2,1") == (0, 1, 2, 5)


@pytest.mark.parametrize(
    "text", ["", "a", "1,", "1--2", "3-1", "1;2", "9" * 3000, "0-4000,5000-9000"]
)
def test_other_ranks_are_refused(text: str) -> None:
    with pytest.raises(InputError, match=r"choose|give"):
        parse_ranks(text)
