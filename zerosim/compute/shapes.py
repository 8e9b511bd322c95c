"""Measured efficiencies of matrix products by shape: what no formula of few constants tells."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Final

from zerosim.registry import Registry
from zerosim.workload import Matmul

_FILE: Final = "shapes.csv"
_WIDTH: Final = 2
"""Bytes of an element in the tables: bfloat16."""


@dataclass(frozen=True, slots=True)
class ShapeTable:
    """Matrix products measured on one `device`, in bfloat16; an empty device: none (the formula)."""

    device: str
    source: str

    def efficiency(self, matmul: Matmul, width: int) -> float | None:
        """The share of the device's peak that a product of elements of `width` bytes reaches.

        None if that shape was not measured.
        """
        if not self.device or width != _WIDTH:
            return None
        return shapes_of(self.device).get((matmul.m, matmul.k, matmul.n, matmul.layout))


_SOURCE: Final = "MooreThreads/SimuMax @4dcaae5, configs/system/"
FORMULA: Final = "formula"
SHAPE_TABLES: Final = Registry(
    "shape table",
    {
        FORMULA: ShapeTable("", "the additive roofline alone"),
        "a100-pcie": ShapeTable("A100 PCIe 80GB", f"{_SOURCE}a100_pcie.json: 183 shapes"),
        "b200": ShapeTable("B200 SXM 180GB", f"{_SOURCE}b200_bf16_ceperm.json: 432 shapes"),
    },
)
"""Tables by the name that `cluster.shapes` takes."""


def table_of(device: str) -> str:
    """The name of the table that was measured on a device, else the formula's."""
    return next((name for name in SHAPE_TABLES if SHAPE_TABLES[name].device == device), FORMULA)


@cache
def shapes_of(device: str) -> dict[tuple[int, int, int, str], float]:
    """Efficiencies of a device by (m, k, n, layout)."""
    text = resources.files(__package__).joinpath(_FILE).read_text(encoding="utf-8")
    rows = csv.DictReader(line for line in text.splitlines() if not line.startswith("#"))
    return {
        (int(row["m"]), int(row["k"]), int(row["n"]), row["layout"]): float(row["efficiency"])
        for row in rows
        if row["device"] == device
    }
