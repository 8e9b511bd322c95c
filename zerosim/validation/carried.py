"""The measured collectives that zerosim carries, each with its source: those that can be scored."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache

from zerosim.kinds import Kind
from zerosim.validation.cells import fact_rows
from zerosim.validation.collective_rows import Row, Rows
from zerosim.validation.measured import Timing


@cache
def carried_collectives() -> Rows:
    """The rows of facts/collectives.csv, which docs/calibration.md explains; from 32 KiB up."""
    return Rows(tuple(row for cells in fact_rows("collectives.csv") for row in _rows(cells)))


def _rows(cells: Mapping[str, str]) -> Iterator[Row]:
    both = cells["time_us"] and cells["in_place_us"]
    for column, in_place in (("time_us", False), ("in_place_us", True)):
        if not cells[column]:
            continue
        timing = Timing(
            kind=Kind(cells["collective"]),
            n_ranks=int(cells["ranks"]),
            n_nodes=int(cells["nodes"]),
            nbytes=int(cells["bytes"]),
            seconds=float(cells[column]) / 1e6,
            dtype=cells["dtype"],
            in_place=in_place if both else None,
        )
        side = "in" if in_place else "out"
        yield Row(
            row_id=f"{cells['series']} {timing.kind} {timing.n_ranks} {timing.nbytes} {side}",
            series=cells["series"],
            timing=timing,
            split=cells["split"],
            source=cells["source"],
            hardware=cells["hardware"],
            gpu=cells["gpu"],
            intra_link=cells["intra_link"],
            inter_link=cells["inter_link"],
            inter_gbps=float(cells["inter_gbps"]) if cells["inter_gbps"] else None,
            algo=cells["algo"],
            tool=cells["tool"],
            notes=cells["launched"],
        )
