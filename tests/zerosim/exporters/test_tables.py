"""CSV and Parquet hold the spans as they are."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from tests.zerosim.exporters.sameness import table
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
