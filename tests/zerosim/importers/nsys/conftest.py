"""Hand-made Nsight Systems exports: the tables and columns that the importer looks at, and no others."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

EPOCH_NS = 1_776_781_226_557_295_056
"""When the session began, in ns since 1970."""

_TABLES = {
    "StringIds": "id, value",
    "TARGET_INFO_SESSION_START_TIME": "utcEpochNs",
    "CUPTI_ACTIVITY_KIND_KERNEL": (
        "start, end, deviceId, streamId, correlationId, globalPid, demangledName"
    ),
    "CUPTI_ACTIVITY_KIND_RUNTIME": "start, end, globalTid, correlationId",
    "NVTX_EVENTS": "start, end, eventType, text, textId, globalTid",
}


class Session:
    """An export in the making: times in ns since EPOCH_NS; process 100 has device 0, and so on."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows: dict[str, list[tuple[object, ...]]] = {name: [] for name in _TABLES}
        self.rows["TARGET_INFO_SESSION_START_TIME"].append((EPOCH_NS,))

    def kernel(
        self, name: str, start: object, end: object, *, launched: int | None, device: int = 0
    ) -> None:
        """Add a kernel on stream 7, and the call that launched it (None: before the recording)."""
        rows = self.rows["CUPTI_ACTIVITY_KIND_KERNEL"]
        number, pid = len(rows) + 1, (100 + device) << 24
        self.rows["StringIds"].append((number, name))
        rows.append((start, end, device, 7, number, pid, number))
        if launched is not None:
            self.rows["CUPTI_ACTIVITY_KIND_RUNTIME"].append(
                (launched, launched + 5, pid + 9, number)
            )

    def mark(self, text: str, start: int, end: int, *, device: int = 0) -> None:
        """Add a range of the thread that launches."""
        self.rows["NVTX_EVENTS"].append((start, end, 59, text, None, ((100 + device) << 24) + 9))

    def write(self, *statements: str) -> Path:
        """Write the database, then run `statements` in it."""
        self.path.unlink(missing_ok=True)
        with closing(sqlite3.connect(self.path)) as connection:
            for name, columns in _TABLES.items():
                connection.execute(f"CREATE TABLE {name} ({columns})")
                places = ", ".join("?" * len(columns.split(",")))
                connection.executemany(f"INSERT INTO {name} VALUES ({places})", self.rows[name])
            for statement in statements:
                connection.execute(statement)
            connection.commit()
        return self.path


@pytest.fixture
def session(tmp_path: Path) -> Session:
    """An empty export."""
    return Session(tmp_path / "run.sqlite")


@pytest.fixture
def epoch_ns() -> int:
    """What hand-made exports count from."""
    return EPOCH_NS
