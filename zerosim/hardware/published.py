"""Figures that others measured on a machine, and what the model gives in their place."""

from __future__ import annotations

from dataclasses import dataclass

from zerosim.cluster import Cluster
from zerosim.collectives import bus_factor, transfer
from zerosim.kinds import Kind
from zerosim.units import NS_PER_S


@dataclass(frozen=True, slots=True)
class Published:
    """A bus bandwidth that somebody measured on such a machine, bytes a second, and who.

    `nbytes` as in nccl-tests' size column. `split`: calib figures may be fitted, test and extra ones
    are compared. The model gives it `within` a share; where it does not, `off` says why it cannot.
    """

    kind: Kind
    n_ranks: int
    nbytes: int
    busbw: float
    source: str
    split: str = "calib"
    within: float = 0.05
    off: str = ""


def busbw(figure: Published, cluster: Cluster) -> float:
    """The bus bandwidth, bytes a second, that the cluster's model gives in a figure's place."""
    n = figure.n_ranks
    taken_ns = transfer(figure.kind, figure.nbytes, n, cluster).alone_ns
    return bus_factor(figure.kind, n) * figure.nbytes / (taken_ns / NS_PER_S)
