"""A foreign SQLite file, read as plain tables: nothing that it brings along is run or written."""

from __future__ import annotations

import re
import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from zerosim.errors import TraceFileError
from zerosim.importers.content import SQLITE, Content, no_room
from zerosim.importers.stored import pieces

_KNOWN: Final = re.compile(
    r"CUPTI_ACTIVITY_KIND_(?:KERNEL|MEMCPY|MEMSET|RUNTIME|GRAPH_TRACE)(?:_V\d{1,2})?"
    r"|NVTX_EVENTS|NVTX_PAYLOAD_SCHEMA_ENTRIES|StringIds|TARGET_INFO_(?:GPU|CUDA_DEVICE|SESSION_START_TIME)"
)
_LONGEST_VALUE: Final = 2**24
_FAULTS: Final = (sqlite3.Error, UnicodeError)
"""The second: what is wrong may be named by a text of the file that is none."""
_ASIDE: Final = ("-wal", "-journal")
"""Files that hold rows which have not come into the database yet, or must go out of it again."""

# Note [Foreign database]: SQLite runs code of the file where it may: views, triggers, generated
# columns, checks, indices over expressions, defaults. So only plain tables of known names are read,
# their stored columns by name, row by row and without any index; an authorizer refuses the rest. The
# pages are checked first, since pages that point to each other could unfold without end.


@dataclass(frozen=True, slots=True)
class Database:
    """The known tables of an open file, by name, each with its stored columns."""

    path: Path
    connection: sqlite3.Connection
    tables: dict[str, tuple[str, ...]]

    def rows(self, table: str, columns: Sequence[str]) -> Iterator[tuple[Any, ...]]:
        """The rows of `table`, with null for `columns` that it lacks; none if there is no such table."""
        present = self.tables.get(table)
        if present is None:
            return
        asked = ", ".join(f'"{c}"' if c in present else "NULL" for c in columns) or "1"
        try:
            yield from self.connection.execute(f'SELECT {asked} FROM "{table}" NOT INDEXED')  # noqa: S608 - names from _KNOWN and `columns`
        except _FAULTS as error:
            raise _damaged(self.path, error) from None

    def version_of(self, table: str) -> str:
        """`table`, or if it has no rows, the first of `table_V2`, `table_V3` … that has some."""
        found = sorted(t for t in self.tables if t == table or t.startswith(f"{table}_V"))
        return next((t for t in found if any(True for _ in self.rows(t, ()))), table)


@contextmanager
def open_database(content: Content) -> Iterator[Database]:
    """The database in `content`, closed in the end. Raises TraceFileError for a damaged one."""
    if content.file is not None:
        with _opened(content.path, content.file) as database:
            yield database
        return
    with ExitStack() as stack:
        try:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="zerosim-"))
            file = Path(folder) / "trace.sqlite"
            with file.open("wb") as opened:
                opened.writelines(pieces(content.whole))
        except OSError as error:
            raise no_room(content.path, error) from None
        yield stack.enter_context(_opened(content.path, file))


@contextmanager
def _opened(path: Path, file: Path) -> Iterator[Database]:
    _check_whole(path, file)
    uri = f"{file.resolve().as_uri()}?mode=ro&immutable=1"
    try:
        connection = sqlite3.connect(uri, uri=True, isolation_level=None)
    except _FAULTS as error:
        raise _damaged(path, error) from None
    with closing(connection):
        try:
            tables = _guard(connection)
        except _FAULTS as error:
            raise _damaged(path, error) from None
        yield Database(path, connection, tables)


def _check_whole(path: Path, file: Path) -> None:
    # The header counts the pages; the count is good if it was written with the last change.
    with file.open("rb") as opened:
        header = opened.read(100)
    size = file.stat().st_size
    pages, page_bytes = int.from_bytes(header[28:32]), int.from_bytes(header[16:18])
    page_bytes = 2**16 if page_bytes == 1 else page_bytes
    whole = pages * page_bytes if header[24:28] == header[92:96] else 0
    if not header.startswith(SQLITE) or size < max(whole, 512):
        raise TraceFileError(
            f"'{path}' is a truncated database of {size} bytes: copy or export it again"
        )
    for suffix in _ASIDE:
        aside = file.resolve().with_name(file.resolve().name + suffix)  # of a link: where it leads
        if aside.exists() and aside.stat().st_size:
            raise TraceFileError(
                f"'{path}' has changes that are still in '{aside.name}': close what writes it first"
            )


def _guard(connection: sqlite3.Connection) -> dict[str, tuple[str, ...]]:
    """Shut `connection` to all but the known tables, and name these; see Note [Foreign database]."""
    connection.text_factory = lambda text: text.decode("utf-8", "replace")
    for limit, most in (
        (sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST_VALUE),
        (sqlite3.SQLITE_LIMIT_ATTACHED, 0),
        (sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH, 0),
        (sqlite3.SQLITE_LIMIT_EXPR_DEPTH, 100),
    ):
        connection.setlimit(limit, most)
    for setting in (
        *("trusted_schema = OFF", "query_only = ON", "cell_size_check = ON", "mmap_size = 0"),
        *("ignore_check_constraints = ON", "temp_store = MEMORY"),
    ):
        connection.execute(f"PRAGMA {setting}")
    tables = {}
    listed = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    for name in (n for (n,) in listed if isinstance(n, str) and _KNOWN.fullmatch(n)):
        if _is_plain(connection, name):
            _check_pages(connection, name)
            tables[name] = _columns(connection, name)
    connection.set_authorizer(
        lambda action, table, _column, _base, inner: (
            sqlite3.SQLITE_OK
            if inner is None
            and (
                action == sqlite3.SQLITE_SELECT
                or (action == sqlite3.SQLITE_READ and table in tables)
            )
            else sqlite3.SQLITE_DENY
        )
    )
    return tables


def _is_plain(connection: sqlite3.Connection, name: str) -> bool:
    kinds = connection.execute(f'PRAGMA table_list("{name}")').fetchall()
    return [k[2] for k in kinds] == ["table"]


def _columns(connection: sqlite3.Connection, name: str) -> tuple[str, ...]:
    # table_info leaves generated columns out: they would be computed.
    return tuple(row[1] for row in connection.execute(f'PRAGMA table_info("{name}")'))


def _check_pages(connection: sqlite3.Connection, name: str) -> None:
    fault = connection.execute(f'PRAGMA quick_check("{name}")').fetchone()
    if fault is None or fault[0] != "ok":
        raise sqlite3.DatabaseError(str(fault[0] if fault else "no answer").split("\n")[-1][:80])


def _damaged(path: Path, error: Exception) -> TraceFileError:
    return TraceFileError(f"'{path}' is a damaged database ({error}): export it again")
