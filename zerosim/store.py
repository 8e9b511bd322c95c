"""The run library: a directory of runs, each a directory of `run.json` and two Parquet files.

A run is there whole or not at all (zerosim.disk). `provenance.json` holds what may differ between equal runs (time, host, versions).
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, Final

import orjson
import polars as pl

from zerosim import __version__
from zerosim.disk import flush, identity, whole_directory
from zerosim.errors import RunError, TraceFileError
from zerosim.header import meta_from_dict, meta_to_dict
from zerosim.trace import (
    FORMAT_VERSION,
    SAMPLES,
    SPANS,
    Meta,
    Trace,
    make_trace,
)

MAX_JSON_BYTES: Final = 256 * 2**20
"""A header is small, but one of 2^20 ranks that all differ has a million entries."""
MAX_ROWS: Final = 50_000_000
"""A table of a few bytes can unfold to far more than there is memory for."""
MAX_NAME_BYTES: Final = 200
"""File systems allow 255; the name of the staging directory adds some."""
_DAMAGE: Final = (
    *(OSError, TraceFileError, pl.exceptions.PolarsError),
    pl.exceptions.PanicException,  # what some damaged pages end in; it is no Exception
)
_TRIES: Final = 20


@dataclass(frozen=True, slots=True)
class StoredRun:
    """One entry of the library: where it lies, and what it says of itself (or why it cannot)."""

    path: Path
    meta: Meta | None
    problem: str | None = None

    @property
    def id(self) -> str:
        """The run's name in the library."""
        return self.path.name


def save_run(trace: Trace, path: Path, beside: Path | None = None) -> Path:
    """Write `trace` as the directory `path`, replacing an older run there. Raises RunError.

    What lies in the directory `beside` goes along as it is, such as logs and files of other tracers.
    """
    check_place(path)
    with _refused(f"write run '{path}'"), whole_directory(path) as scratch:
        if beside is not None:
            shutil.copytree(beside, scratch, dirs_exist_ok=True)
        _write_json(scratch / "run.json", meta_to_dict(trace.meta))
        _write_parquet(trace.spans, scratch / "spans.parquet")
        _write_parquet(trace.samples, scratch / "samples.parquet")
        _write_json(scratch / "provenance.json", _provenance() | trace.provenance)
    return path


def check_place(path: Path) -> None:
    """Whether a run could be written there, before the work is done. Raises RunError."""
    with _refused(f"write run '{path}'"):
        if (path.exists() or path.is_symlink()) and not _is_run(path):
            raise RunError(f"'{path}' exists and is not a run: choose another name with -o")
        above = next(parent for parent in path.absolute().parents if parent.exists())
        if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
            raise RunError(
                f"cannot write run '{path}': '{above}' is no directory that you may write to; "
                "choose another place with -o"
            )


def load_run(path: Path) -> Trace:
    """Read a run. Raises RunError for a missing, damaged or newer one."""
    for _ in range(_TRIES):
        before = identity(path)
        try:
            trace = _loaded(path)
        except RunError:
            if identity(path) == before:
                raise
        else:
            if identity(path) == before:
                return trace
    raise RunError(f"run '{path}' is written again and again: read it later")


def _loaded(path: Path) -> Trace:
    meta = load_meta(path)
    try:
        spans, samples = _read_table(path / "spans.parquet"), _read_table(path / "samples.parquet")
        provenance = _read_json(path / "provenance.json") if _has(path, "provenance.json") else {}
        _check_columns(spans, SPANS, path)
        _check_columns(samples, SAMPLES, path)
        return make_trace(spans, meta, samples, provenance)
    except _DAMAGE as error:
        first_line = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise RunError(f"run '{path}' is damaged ({first_line}): make or import it again") from None


def load_meta(path: Path) -> Meta:
    """Read what a run says of itself, without its tables. Raises RunError."""
    if not path.is_dir():
        raise RunError(f"no run at '{path}': `zerosim list runs` shows what there is")
    if not _has(path, "run.json"):
        raise RunError(f"'{path}' is not a run (it has no run.json): give a run directory")
    record = _read_json(path / "run.json")
    version = record.get("format_version")
    if not isinstance(version, int) or version < 1:
        raise RunError(f"run '{path}' has format version {version!r}: make or import it again")
    if version > FORMAT_VERSION:
        raise RunError(
            f"run '{path}' has format version {version}, newer than {FORMAT_VERSION}: update zerosim"
        )
    try:
        return meta_from_dict(record)
    except TraceFileError as error:
        raise RunError(f"run '{path}': {error}") from None


def list_runs(library: Path) -> tuple[StoredRun, ...]:
    """All runs in a directory, by name; a damaged one is listed with its problem."""
    if not library.is_dir():
        return ()
    return tuple(
        _stored(path)
        for path in sorted(library.iterdir())
        if path.is_dir() and not path.name.startswith(".") and _has(path, "run.json")
    )


def run_path(library: Path, name: str) -> Path:
    """Where a run of that name lies; refuses names that would leave the library. Raises RunError."""
    _check_name(name)
    return library / name


def free_name(library: Path, name: str) -> str:
    """`name`, or with a number behind it where the library has something of that name."""
    taken = {path.name for path in library.iterdir()} if library.is_dir() else set()
    numbered = (f"{name}-{n}" for n in range(2, len(taken) + 3))
    return name if name not in taken else next(n for n in numbered if n not in taken)


def find_run(library: Path, run_id: str) -> Path:
    """The directory of a run that is in the library. Raises RunError."""
    path = run_path(library, run_id)
    if not _is_run(path):
        raise RunError(f"no run '{run_id}' in '{library}': `zerosim list runs` shows what there is")
    return path


def delete_run(path: Path) -> None:
    """Remove a run and nothing else. Raises RunError."""
    if not _is_run(path):
        raise RunError(f"'{path}' is not a run, so it is not deleted: give a run directory")
    with _refused(f"delete run '{path}'"):
        doomed = Path(tempfile.mkdtemp(prefix=".deleted-", dir=path.parent))
        try:
            path.rename(doomed / path.name)
        finally:
            shutil.rmtree(doomed, ignore_errors=True)


def rename_run(path: Path, new_name: str) -> Path:
    """Give a run another name in the same library. Raises RunError."""
    target = run_path(path.parent, new_name)
    if not _is_run(path):
        raise RunError(f"'{path}' is not a run: give a run directory")
    if target.exists():
        raise RunError(f"'{new_name}' exists already: choose another name")
    with _refused(f"rename run '{path}'"):
        path.rename(target)
    return target


def _provenance() -> dict[str, Any]:
    versions = {"python": platform.python_version(), "polars": pl.__version__}
    return {"zerosim": __version__, "saved_unix_ns": time.time_ns(), **versions}


def _stored(path: Path) -> StoredRun:
    try:
        return StoredRun(path, load_meta(path))
    except RunError as error:
        return StoredRun(path, None, str(error))


def _is_run(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink() and _has(path, "run.json")


def _has(path: Path, name: str) -> bool:
    return (path / name).is_file()


def _check_name(name: str) -> None:
    long = len(name.encode(errors="replace")) > MAX_NAME_BYTES
    odd = not name.isprintable() or "/" in name or "\\" in name
    if not name or long or odd or name.startswith("."):
        raise RunError(
            f"'{name[:40]}' cannot name a run: use letters, digits, '-', '_' and '.', "
            f"at most {MAX_NAME_BYTES} bytes"
        )


def _check_columns(frame: pl.DataFrame, schema: dict[str, pl.DataType], path: Path) -> None:
    if frame.columns != list(schema):
        raise TraceFileError(f"the columns of a table in '{path.name}' are not those of a run")


@contextmanager
def _refused(what: str) -> Iterator[None]:
    """What the system refuses, as one sentence."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or error
        raise RunError(f"cannot {what}: {reason}; check the disk and its permissions") from error


def _write_json(path: Path, record: dict[str, Any]) -> None:
    options = orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS
    try:
        content = orjson.dumps(record, option=options)
    except orjson.JSONEncodeError:  # names of files need not be text
        text = json.dumps(record, ensure_ascii=False).encode(errors="replace")
        content = orjson.dumps(orjson.loads(text), option=options)
    path.write_bytes(content + b"\n")
    flush(path)


def _write_parquet(frame: pl.DataFrame, path: Path) -> None:
    # Categories are written as text: the numbers behind them depend on what else was loaded.
    text = [c for c, t in frame.schema.items() if isinstance(t, pl.Categorical | pl.Enum)]
    # By way of memory: writing to a file, polars hides what the system refuses.
    content = BytesIO()
    frame.with_columns(pl.col(text).cast(pl.String)).write_parquet(content, compression="zstd")
    path.write_bytes(content.getbuffer())
    flush(path)


def _read_json(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > MAX_JSON_BYTES:
            raise RunError(f"'{path}' is over {MAX_JSON_BYTES} bytes: it is no run's header")
        record = orjson.loads(path.read_bytes())
    except (OSError, orjson.JSONDecodeError) as error:
        raise RunError(f"'{path}' is damaged ({error}): make or import the run again") from None
    if not isinstance(record, dict):
        raise RunError(f"'{path}' does not hold an object: make or import the run again")
    return record


def _read_table(path: Path) -> pl.DataFrame:
    if not path.is_file():
        raise TraceFileError(f"'{path.name}' is not a file")
    # As bytes: a path would be taken for a pattern, with its own meaning of [, * and ~.
    content = path.read_bytes()
    rows = pl.scan_parquet(content).select(pl.len()).collect().item()
    if rows > MAX_ROWS:
        raise TraceFileError(f"'{path.name}' has {rows} rows, over {MAX_ROWS}")
    return pl.read_parquet(content)
