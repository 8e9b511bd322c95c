"""CSV and Parquet: the spans of a run, and its samples, as tables for whatever you like to count with."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import polars as pl

from zerosim.disk import whole_directory, whole_file
from zerosim.trace import Trace

_Write = Callable[[pl.DataFrame, BytesIO], object]


def write_csv(trace: Trace, path: Path) -> None:
    """Tables with a header line; what is unknown is an empty field, an empty text is `""`.

    A path with a suffix is a file of the spans alone, any other one a directory with the samples, too.
    """
    _write(trace, path, "csv", lambda table, file: table.write_csv(file))


def write_parquet(trace: Trace, path: Path) -> None:
    """Tables with types; what is unknown is null. The path is as for CSV."""
    _write(
        trace, path, "parquet", lambda table, file: table.write_parquet(file, compression="zstd")
    )


def _write(trace: Trace, path: Path, suffix: str, write: _Write) -> None:
    if path.suffix:
        with whole_file(path) as file:
            file.write(_content(trace.spans, write))
        return
    with whole_directory(path) as folder:
        (folder / f"spans.{suffix}").write_bytes(_content(trace.spans, write))
        (folder / f"samples.{suffix}").write_bytes(_content(trace.samples, write))


def _content(table: pl.DataFrame, write: _Write) -> bytes:
    # By way of memory: writing to a file, polars hides what the system refuses. Categories are written
    # as text: other readers know nothing of them.
    text = [c for c, t in table.schema.items() if isinstance(t, pl.Categorical | pl.Enum)]
    content = BytesIO()
    write(table.with_columns(pl.col(text).cast(pl.String)), content)
    return content.getvalue()
