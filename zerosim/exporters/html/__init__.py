"""One HTML file with the timeline in it: opens in any browser, asks nothing of any server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import orjson
import polars as pl

from zerosim.disk import whole_file
from zerosim.errors import InputError
from zerosim.exporters.lanes import lay_apart, refuse_empty
from zerosim.figures.palette import OPS, ROLE, text_on
from zerosim.kinds import Kind
from zerosim.trace import Trace

MAX_SPANS: Final = 1_000_000
"""Beyond so many a browser is no longer pleasant; Perfetto is."""
MAX_SAMPLES: Final = 1_000_000
_PAGE: Final = Path(__file__).with_name("page.html")
_PLACE: Final = "RUN_AS_JSON"


def write(trace: Trace, path: Path) -> None:
    """All ranks in one page. Raises InputError for a run of no spans, or of more than MAX_SPANS."""
    refuse_empty(trace)
    if trace.spans.height > MAX_SPANS:
        raise InputError(
            f"run '{trace.meta.name}' has {trace.spans.height} spans, over {MAX_SPANS}: "
            "export it --to perfetto"
        )
    # Note [Names are text]: they come out of files of strangers. With no `<` in it nothing in the
    # JSON ends the script element, and the page shows names on a canvas or as textContent alone.
    run = orjson.dumps(_run(trace)).decode().replace("<", "\\u003c")
    page = _PAGE.read_text(encoding="utf-8").replace(_PLACE, run, 1)
    with whole_file(path) as file:
        file.write(page.encode())


def _run(trace: Trace) -> dict[str, Any]:
    spans = trace.spans.with_columns(pl.col(pl.Categorical, pl.Enum).cast(pl.String))
    kinds = spans["kind"].unique(maintain_order=True).to_list()
    words = pl.concat([spans["name"], spans["unit"].drop_nulls()]).unique(maintain_order=True)
    begin, shown = trace.begin_ns, trace.samples.height <= MAX_SAMPLES
    return {
        "name": trace.meta.name,
        "source": trace.meta.source,
        "kinds": [_ink(Kind(kind)) for kind in kinds],
        "words": words.to_list(),
        "tracks": list(_tracks(spans, kinds, words.to_list(), begin)),
        "counters": list(_counters(trace.samples, begin)) if shown else [],
        "note": ""
        if shown
        else f"counters are not shown: {trace.samples.height:,} samples, over {MAX_SAMPLES:,}",
        "steps": [
            [w.step, w.start_ns - begin, w.end_ns - begin]
            for w in trace.meta.steps
            if w.rank == trace.ranks[0]
        ],
    }


def _counters(samples: pl.DataFrame, begin: int) -> Iterator[dict[str, Any]]:
    """What each counter of a rank counted, in order of time; of samples of one moment the last holds on."""
    for (rank, counter), rows in samples.group_by("rank", "counter", maintain_order=True):
        laid = rows.sort("time_ns", maintain_order=True)
        yield {
            "rank": rank,
            "name": counter,
            "at": (laid["time_ns"] - begin).to_list(),
            "value": laid["value"].to_list(),
        }


def _ink(kind: Kind) -> dict[str, Any]:
    swatch = OPS[ROLE[kind]]
    return {
        "name": kind.value.replace("_", "-"),
        "light": [swatch.light, text_on(swatch.light)],
        "dark": [swatch.dark, text_on(swatch.dark)],
    }


def _tracks(
    spans: pl.DataFrame, kinds: list[str], words: list[str], begin: int
) -> Iterator[dict[str, Any]]:
    kind_at = {kind: place for place, kind in enumerate(kinds)}
    word_at = {word: place for place, word in enumerate(words)}
    for (rank, stream), rows in spans.group_by("rank", "stream", maintain_order=True):
        laid = rows.sort("start_ns", -pl.col("end_ns"), maintain_order=True)
        lanes = lay_apart(laid.select("start_ns", "end_ns").rows())
        laid = laid.with_columns(lane=pl.Series(lanes))
        for lane in range(max(lanes) + 1):
            mine = laid.filter(pl.col("lane") == lane)
            yield {
                "rank": rank,
                "stream": f"{stream} ({lane + 1})" if lane else stream,
                "start": (mine["start_ns"] - begin).to_list(),
                "end": (mine["end_ns"] - begin).to_list(),
                "kind": [kind_at[kind] for kind in mine["kind"]],
                "name": [word_at[name] for name in mine["name"]],
                "unit": [None if unit is None else word_at[unit] for unit in mine["unit"]],
                "step": mine["step"].to_list(),
                "bytes": mine["nbytes"].to_list(),
                "flags": mine["flags"].to_list(),
            }
