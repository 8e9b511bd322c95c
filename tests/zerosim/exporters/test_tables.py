"""CSV and Parquet hold the spans as they are."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from tests.zerosim.exporters.sameness import counters, table
from zerosim.exporters import export
from zerosim.trace import SPANS, Trace


def test_parquet_is_the_table(odd: Trace, tmp_path: Path) -> None:
    export(odd, "parquet", tmp_path / "spans.parquet")
    assert pl.read_parquet(tmp_path / "spans.parquet").to_dicts() == table(odd)


def test_csv_is_the_table_and_unknown_is_an_empty_field(odd: Trace, tmp_path: Path) -> None:
    export(odd, "csv", tmp_path / "spans.csv")
    text = (tmp_path / "spans.csv").read_text()
    assert text.splitlines()[0] == ",".join(SPANS)
    assert text.splitlines()[1] == (
        "5,stream 20,all_gather,AG,,1759300074123456788,1759300074123456789,"
        "1759300074123456799,,,0,0,7,28,,float32,,0"
    )
    schema = {c: pl.String if t in (pl.Categorical, pl.Enum) else t for c, t in SPANS.items()}
    schema["kind"] = pl.String
    assert pl.read_csv(tmp_path / "spans.csv", schema=schema).to_dicts() == table(odd)


def test_a_directory_holds_the_samples_too(odd: Trace, tmp_path: Path) -> None:
    export(odd, "csv", tmp_path / "tables")
    assert sorted(path.name for path in (tmp_path / "tables").iterdir()) == [
        "samples.csv",
        "spans.csv",
    ]
    export(odd, "csv", tmp_path / "alone.csv")
    spans = (tmp_path / "tables" / "spans.csv").read_text()
    assert spans == (tmp_path / "alone.csv").read_text()
    lines = (tmp_path / "tables" / "samples.csv").read_text().splitlines()
    assert lines[0] == "time_ns,rank,counter,value"
    assert len(lines) == 1 + odd.samples.height


def test_samples_in_parquet_are_those_of_the_run(lesson: Trace, tmp_path: Path) -> None:
    export(lesson, "parquet", tmp_path / "tables")
    samples = pl.read_parquet(tmp_path / "tables" / "samples.parquet")
    assert samples.height == lesson.samples.height > 0
    assert sorted(samples.rows()) == sorted(counters(lesson))
