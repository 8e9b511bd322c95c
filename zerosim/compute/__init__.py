"""What computing costs: an additive roofline, and tables of measured matrix products."""

from __future__ import annotations

from zerosim.compute.roofline import compute_ns
from zerosim.compute.shapes import FORMULA, SHAPE_TABLES, ShapeTable, table_of

__all__ = ["FORMULA", "SHAPE_TABLES", "ShapeTable", "compute_ns", "table_of"]
