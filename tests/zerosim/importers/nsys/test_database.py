"""A hostile or damaged database is refused with a sentence, and nothing of it is run or changed."""

from __future__ import annotations

import random
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from zerosim.errors import TraceFileError
from zerosim.importers import read
from zerosim.importers.content import read_content
from zerosim.importers.nsys.database import open_database

SESSION = Any
"""The hand-made export of conftest.py, which cannot be imported from here."""


@pytest.fixture
def export(session: SESSION) -> SESSION:
    """An export of one kernel."""
    session.kernel("gemm", 400, 500, launched=50)
    return session


def names(path: Path) -> list[str]:
    return sorted(read([path]).spans["name"].to_list())


def test_views_and_triggers_are_never_run(export: SESSION) -> None:
    endless = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x FROM c"
    path = export.write(
        f"CREATE VIEW CUPTI_ACTIVITY_KIND_MEMCPY AS SELECT x AS start, x AS end FROM ({endless})",
        "CREATE TRIGGER t AFTER INSERT ON StringIds BEGIN DELETE FROM StringIds; END",
    )
    assert names(path) == ["gemm"]


def test_computed_columns_are_never_computed(export: SESSION) -> None:
    path = export.write(
        "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET"
        " (start, end, bytes AS (zeroblob(1000000000)), value AS (hex(zeroblob(9))))",
        "INSERT INTO CUPTI_ACTIVITY_KIND_MEMSET VALUES (600, 700)",
    )
    assert names(path) == ["Memset", "gemm"]


def test_checks_and_indices_over_expressions_are_never_computed(export: SESSION) -> None:
    path = export.write(
        "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET (start, end CHECK (abs(end) > 0))",
        "INSERT INTO CUPTI_ACTIVITY_KIND_MEMSET VALUES (600, 700)",
        "CREATE INDEX i ON CUPTI_ACTIVITY_KIND_MEMSET (abs(start), start, end)",
    )
    assert names(path) == ["Memset", "gemm"]


def test_a_virtual_table_is_not_read(export: SESSION) -> None:
    path = export.write("CREATE VIRTUAL TABLE CUPTI_ACTIVITY_KIND_MEMSET USING fts5 (start, end)")
    assert names(path) == ["gemm"]


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM other",
        "SELECT load_extension('evil')",
        "ATTACH ':memory:' AS more",
        "PRAGMA query_only = OFF",
        "DELETE FROM StringIds",
        "SELECT * FROM pragma_database_list",
    ],
)
def test_an_open_database_answers_nothing_but_its_known_tables(
    export: SESSION, statement: str
) -> None:
    path = export.write("CREATE TABLE other (x)")
    with (
        open_database(read_content(path)) as database,
        pytest.raises(sqlite3.Error, match=r"prohibited|not authorized|no such table"),
    ):
        database.connection.execute(statement)


def test_reading_leaves_the_folder_as_it_was(export: SESSION) -> None:
    path = export.write("PRAGMA journal_mode = WAL")
    before = {p.name: p.read_bytes() for p in path.parent.iterdir() if p.stat().st_size}
    names(path)
    assert {p.name: p.read_bytes() for p in path.parent.iterdir() if p.stat().st_size} == before


def test_rows_that_are_still_in_a_log_beside_it_are_not_lost_silently(export: SESSION) -> None:
    path = export.write()
    path.with_name("run.sqlite-wal").write_bytes(b"rows that have not come home")
    with pytest.raises(TraceFileError, match=r"changes that are still in 'run\.sqlite-wal'"):
        read([path])


def test_a_database_of_another_program_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bookmarks.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE moz_bookmarks (id)")
    with pytest.raises(TraceFileError, match="an SQLite database, but not of Nsight Systems"):
        read([path])


def test_text_that_is_no_utf8_is_shown_with_marks(export: SESSION) -> None:
    path = export.write("UPDATE StringIds SET value = CAST(x'67ff6d' AS TEXT)")
    assert names(path) == ["g\ufffdm"]


@pytest.mark.parametrize("kept", [16, 100, 511, 512, 4096, 5000, -4096, -1])
def test_a_truncated_database_is_refused(export: SESSION, kept: int) -> None:
    path = export.write()
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(TraceFileError, match=r"truncated database|damaged database"):
        read([path])


def test_pages_that_hold_each_other_are_refused(export: SESSION) -> None:
    for number in range(2000):
        export.kernel("gemm", 400 + number, 500 + number, launched=50)
    path = export.write()
    raw = bytearray(path.read_bytes())
    with closing(sqlite3.connect(path)) as connection:
        root = connection.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = 'CUPTI_ACTIVITY_KIND_KERNEL'"
        ).fetchone()[0]
    page = (root - 1) * 4096
    assert raw[page] == 5, "an inner page"
    raw[page + 8 : page + 12] = root.to_bytes(4)
    path.write_bytes(raw)
    with pytest.raises(TraceFileError, match="damaged database"):
        read([path])


def test_mutated_databases_are_read_or_refused(export: SESSION) -> None:
    for number in range(50):
        export.kernel(f"gemm{number}", 400 + number, 500 + number, launched=50)
    path = export.write("PRAGMA auto_vacuum = NONE")
    sound = path.read_bytes()
    chance = random.Random(6)
    for _ in range(300):
        raw = bytearray(sound)
        for _ in range(chance.choice((1, 4, 30))):
            raw[chance.randrange(16, len(raw))] = chance.randrange(256)
        path.write_bytes(raw)
        try:
            trace = read([path])
        except TraceFileError:
            continue
        assert trace.spans.height + trace.meta.quality.skipped <= 5000
