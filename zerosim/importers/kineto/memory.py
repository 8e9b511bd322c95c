"""`[memory]` instants to samples: what the allocator of the rank's device held, and when."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

import polars as pl

from zerosim.importers.counts import count
from zerosim.importers.kineto.events import Slice
from zerosim.importers.recording import COUNTS

_HOST_TYPE: Final = 0
_COUNTERS: Final = (("Total Allocated", "memory.allocated"), ("Total Reserved", "memory.reserved"))


def memory_samples(instants: Sequence[Slice], device: int | None) -> pl.DataFrame:
    """Samples (columns COUNTS) of one device: the GPU `device`, else the busiest GPU, else the host.

    A host allocator reserves nothing, so no `memory.reserved` there.
    """
    chosen = _device(instants, device)
    if chosen is None:
        return pl.DataFrame(schema=COUNTS)
    mine = sorted((i for i in instants if _place(i) == chosen), key=lambda i: i.start)
    rows = [
        (instant.start, counter, value)
        for instant in mine
        for label, counter in _COUNTERS
        if (value := count(instant.args.get(label))) is not None
        and (chosen[0] != _HOST_TYPE or label == "Total Allocated")
    ]
    return pl.DataFrame(rows, schema=COUNTS, orient="row")


def _place(instant: Slice) -> tuple[int, int] | None:
    kind, index = instant.args.get("Device Type"), instant.args.get("Device Id")
    return (kind, index) if type(kind) is int and type(index) is int else None


def _device(instants: Sequence[Slice], device: int | None) -> tuple[int, int] | None:
    seen = Counter(place for i in instants if (place := _place(i)) is not None)
    gpus = [place for place, _ in seen.most_common() if place[0] != _HOST_TYPE]
    own = [place for place in gpus if place[1] == device]
    host = [place for place, _ in seen.most_common() if place[0] == _HOST_TYPE]
    return next(iter(own + gpus + host), None)
