"""CSV and Parquet: the spans of a run as one table, for whatever you like to count with."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import polars as pl

from zerosim.disk import whole_file
from zerosim.trace import Trace


def write_csv(trace: Trace, path: Path) -> None:
    """The spans with a header line; what is unknown is an empty field, an empty text is `""`."""
    content = BytesIO()
    _plain(trace).write_csv(content)
    _write(path, content)


def write_parquet(trace: Trace, path: Path) -> None:
    """The spans; what is unknown is null."""
    content = BytesIO()
    _plain(trace).write_parquet(content, compression="zstd")
    _write(path, content)


def _write(path: Path, content: BytesIO) -> None:
    # By way of memory: writing to a file, polars hides what the system refuses.
    with whole_file(path) as file:
        file.write(content.getbuffer())


def _plain(trace: Trace) -> pl.DataFrame:
    # Categories are written as text: other readers know nothing of them.
    spans = trace.spans
    text = [c for c, t in spans.schema.items() if isinstance(t, pl.Categorical | pl.Enum)]
    return spans.with_columns(pl.col(text).cast(pl.String))
