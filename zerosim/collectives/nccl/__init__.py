"""NCCL's tuner: which algorithm and protocol it takes for a collective, and how long that takes."""

from __future__ import annotations

from zerosim.collectives.nccl.constants import Algorithm, Protocol
from zerosim.collectives.nccl.pipeline import nccl_pipelined
from zerosim.collectives.nccl.tuner import Choice, choices, nccl

__all__ = ["Algorithm", "Choice", "Protocol", "choices", "nccl", "nccl_pipelined"]
