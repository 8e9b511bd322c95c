"""A measured table: the time of a collective is read off what a benchmark measured."""

from __future__ import annotations

from zerosim.cluster import Measured

__all__ = ["Measured"]
