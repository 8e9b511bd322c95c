"""Files whose fields hold what they should not: nulls, lists, texts, huge numbers, halves of characters.

`make fuzz` tries 20,000 files a format (ZEROSIM_FUZZ says how many); the tests 100, always the same.
"""

from __future__ import annotations

import json
import os
import pickle
import sqlite3
from collections import defaultdict
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any, Final

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from zerosim.analysis.report import assess
from zerosim.errors import TraceFileError
from zerosim.header import meta_from_dict, meta_to_dict
from zerosim.importers import read
from zerosim.importers.choice import ALL, Choice
from zerosim.importers.pickled import is_pickle

FEW: Final = 100
FILES: Final = int(os.environ.get("ZEROSIM_FUZZ", str(FEW)))
SEEDS: Final = Path(__file__).parent / "seeds"
FILLED: Final = sorted(
    path.name for path in SEEDS.iterdir() if path.suffix in (".json", ".jsonl", ".pickle", "")
)
DATABASE: Final = SEEDS / "nsys.sqlite"
CHOICES: Final = (ALL, Choice(salvage=True), Choice(strict=True))
DEEP: Final = "@deep@"
"""Stands for what is nested deeper than the interpreter likes: neither module for JSON writes it."""
ODD: Final[tuple[Any, ...]] = (
    *(None, True, -1, 0, 1, 2**31, 2**53, 2**61, 2**62 - 1, 2**62, 2**63 - 1, 2**63, 2**64 - 1),
    *(
        -(2**63),
        0.5,
        -0.0,
        1e300,
        float("nan"),
        float("inf"),
        "",
        "-1",
        "9" * 25,
        "1e400",
        "\ud800",
    ),
    *("x" * 5000, "</script><img src=x>", [], {}, [[]], [2**62] * 3, {"a": [1]}, DEEP),
)
CHANGES: Final = st.lists(
    st.tuples(st.integers(0, 999), st.integers(0, 999), st.sampled_from(ODD)),
    min_size=1,
    max_size=2,
)


def load(raw: bytes) -> list[Any]:
    """The documents in a seed: one, or one a line; the last may be cut."""
    if is_pickle(raw):
        return [pickle.loads(raw)]  # noqa: S301 - our own seed
    try:
        return [json.loads(raw)]
    except ValueError:
        lines = [line.strip(b" ,[]") for line in raw.splitlines()]
        return [json.loads(line) for line in lines if line.endswith(b"}}")]


def dump(documents: list[Any], like: bytes) -> bytes:
    if is_pickle(like):
        return pickle.dumps(documents[0], protocol=2)
    written = b"\n".join(json.dumps(document).encode() for document in documents)
    if like.startswith(b"["):
        written = b"[" + written.replace(b"}}\n", b"}},\n")
    return written.replace(f'"{DEEP}"'.encode(), b"[" * 990 + b"]" * 990)


def fields(documents: list[Any]) -> dict[str, list[tuple[Any, Any]]]:
    """Where values stand, by the name of their field: the dict or list, and the key or place in it."""
    found: dict[str, list[tuple[Any, Any]]] = defaultdict(list)
    stack: list[tuple[str, Any]] = [("", document) for document in documents]
    while stack:
        name, here = stack.pop()
        if isinstance(here, dict):
            inside = [(str(key), key, value) for key, value in here.items()]
        else:
            listed = here if isinstance(here, list) else []
            inside = [(f"{name}[]", place, value) for place, value in enumerate(listed)]
        for called, key, value in inside:
            found[called].append((here, key))
            stack.append((called, value))
    return found


def misfilled(raw: bytes, changes: list[tuple[int, int, object]]) -> bytes:
    """The file with odd values in some of its fields: in one place, or wherever the field stands."""
    documents = load(raw)
    for one, other, value in changes:
        by_name = fields(documents)
        places = by_name[sorted(by_name)[one % len(by_name)]]
        for holder, key in places if other % 4 == 0 else [places[other % len(places)]]:
            holder[key] = deepcopy(value)  # else a change within it would be one of ODD
    return dump(documents, raw)


def check(path: Path, choice: Choice) -> None:
    """A sentence that names the file, or a trace that can be told of and stored."""
    try:
        trace = read([path], choice=choice)
    except TraceFileError as refusal:
        assert path.name in str(refusal)  # noqa: PT017 - a refusal is as right as a trace
        return
    quality = trace.meta.quality
    if choice.strict:
        assert (quality.repaired, quality.skipped, quality.lost) == (0, 0, 0)
    assert assess(trace)["events"] == quality.events
    assert meta_from_dict(orjson.loads(orjson.dumps(meta_to_dict(trace.meta)))) == trace.meta


def trying(**given_: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        tried: Callable[..., None] = settings(
            max_examples=FILES,
            derandomize=FILES == FEW,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        )(given(**given_)(test))
        return tried

    return decorate


@pytest.mark.parametrize("name", FILLED)
def test_a_file_of_odd_values_is_a_trace_or_a_sentence(name: str, tmp_path: Path) -> None:
    raw = (SEEDS / name).read_bytes()

    @trying(changes=CHANGES, choice=st.sampled_from(CHOICES))
    def tried(changes: list[tuple[int, int, object]], choice: Choice) -> None:
        (tmp_path / name).write_bytes(misfilled(raw, changes))
        check(tmp_path / name, choice)

    tried()


CELLS: Final = (
    *(None, -1, 0, 2**31, 2**53, 2**61, 2**62, 2**63 - 1, -(2**63), 0.5, 1e300, float("inf")),
    *("", "9" * 25, "x" * 5000, "</script>", b"", b"\xff\xfe", b"\x00" * 64),
)


def test_a_database_of_odd_values_is_a_trace_or_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "nsys.sqlite"
    places = st.tuples(st.integers(0, 999), st.integers(0, 999), st.sampled_from(CELLS))

    @trying(changes=st.lists(places, min_size=1, max_size=3), choice=st.sampled_from(CHOICES))
    def tried(changes: list[tuple[int, int, object]], choice: Choice) -> None:
        path.write_bytes(DATABASE.read_bytes())
        with sqlite3.connect(path) as database:
            tables = database.execute(
                "SELECT name FROM sqlite_master WHERE type = 'table'"
            ).fetchall()
            cells = [
                (table, column[1])
                for (table,) in sorted(tables)
                for column in database.execute(f'PRAGMA table_info("{table}")')
            ]
            for one, other, value in changes:
                table, column = cells[one % len(cells)]
                where = (
                    ""
                    if other % 4 == 0
                    else f"WHERE rowid = 1 + {other} % (SELECT count(*) FROM {table})"
                )
                try:
                    database.execute(f'UPDATE "{table}" SET "{column}" = ? {where}', (value,))
                except sqlite3.IntegrityError:
                    continue  # a primary key takes no texts
        database.close()
        check(path, choice)

    tried()
