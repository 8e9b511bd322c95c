"""Figures that the ZeRO paper prints, beside which the arithmetic is shown: some are cut, not rounded."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from typing import Final

_PAPER: Final = "arXiv 1910.02054"


@dataclass(frozen=True, slots=True)
class Quote:
    """A printed figure in units of `unit`, with where it is printed."""

    text: str
    unit: int
    source: str

    def agrees(self, value: float) -> bool:
        """Whether `value` (in bytes, or parameters) rounds to the printed digits."""
        printed = Decimal(self.text)
        exact = Decimal(value) / self.unit
        return exact.quantize(printed, ROUND_HALF_UP) == printed


_GB: Final = 10**9
_RANKS: Final = (1, 4, 16, 64, 256, 1024)
# Table 1 of the paper: a row of stages 1, 2, 3 for each of _RANKS.
_TABLE_1: Final[dict[int, tuple[str, ...]]] = {
    7_500_000_000: (
        "120 120 120",
        "52.5 41.3 30",
        "35.6 21.6 7.5",
        "31.4 16.6 1.88",
        "30.4 15.4 0.47",
        "30.1 15.1 0.12",
    ),
    128_000_000_000: (
        "2048 2048 2048",
        "896 704 512",
        "608 368 128",
        "536 284 32",
        "518 263 8",
        "513 257 2",
    ),
    1_000_000_000_000: (
        "16000 16000 16000",
        "7000 5500 4000",
        "4750 2875 1000",
        "4187 2218 250",
        "4046 2054 62.5",
        "4011 2013 15.6",
    ),
}
_TABLE_2: Final[dict[int, str]] = {
    1: "2 7.6 14.4 128",
    2: "4 15.2 28.8 256",
    4: "8 30.4 57.6 500",
    8: "16 60.8 115.2 1000",
    16: "32 121.6 230.4 2000",
}
"""Table 2 in billions: the largest model on 64 ranks of 32 GB for m-way model parallelism.

The rows of m > 1 are the rounded first row, multiplied.
"""
TABLE_2_RANKS: Final = 64
TABLE_2_BYTES: Final = 32 * _GB

STATES: Final[dict[tuple[int, int, int], tuple[Quote, ...]]] = {
    (n_params, n_ranks, stage): (Quote(text, _GB, f"{_PAPER} table 1"),)
    for n_params, rows in _TABLE_1.items()
    for n_ranks, row in zip(_RANKS, rows, strict=True)
    for stage, text in enumerate(row.split(), 1)
}
"""What the paper prints for (parameters, ranks, ZeRO stage), in the paper's convention."""
STATES.update(
    {
        (1_500_000_000, 1, 0): (Quote("24", _GB, f"{_PAPER} §3.1"),),
        (7_500_000_000, 64, 0): (Quote("120", _GB, f"{_PAPER} figure 1"),),
        (7_500_000_000, 64, 1): (Quote("31.4", _GB, f"{_PAPER} figure 1, table 1"),),
        (7_500_000_000, 64, 2): (Quote("16.6", _GB, f"{_PAPER} figure 1, table 1"),),
        (7_500_000_000, 64, 3): (
            Quote("1.9", _GB, f"{_PAPER} figure 1"),
            Quote("1.88", _GB, f"{_PAPER} table 1"),
        ),
        (1_000_000_000_000, 1024, 3): (
            Quote("16", _GB, f"{_PAPER} §1"),
            Quote("15.6", _GB, f"{_PAPER} table 1"),
        ),
    }
)

LARGEST: Final[dict[tuple[int, int], tuple[Quote, ...]]] = {
    (parallel, stage): (Quote(text, _GB, f"{_PAPER} table 2"),)
    for parallel, row in _TABLE_2.items()
    for stage, text in enumerate(row.split())
}
"""What the paper prints for (model parallelism, ZeRO stage) on 64 ranks of 32 GB, in parameters."""
LARGEST.update(
    {
        (1, stage): (*LARGEST[1, stage], Quote(text, _GB, f"{_PAPER} §5.4"))
        for stage, text in ((1, "7.5"), (2, "14"), (3, "128"))
    }
)
MEASURED: Final[dict[tuple[int, int], tuple[Quote, ...]]] = {
    (1, 0): (
        Quote("1.3", _GB, f"{_PAPER} table 2, measured"),
        Quote("1.4", _GB, f"{_PAPER} §1, where DDP runs out"),
    ),
    (1, 1): (Quote("6.2", _GB, f"{_PAPER} table 2, measured"),),
    (16, 0): (Quote("20", _GB, f"{_PAPER} table 2, measured"),),
    (16, 1): (Quote("100", _GB, f"{_PAPER} table 2, measured"),),
}
"""What ran in fact, by (model parallelism, ZeRO stage), on 64 ranks of 32 GB.

Activations, buffers and fragmentation take the rest; no closed form gives these.
"""
