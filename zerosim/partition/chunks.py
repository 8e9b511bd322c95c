"""Sizes of the cut by rows alone: the chunks that torch.chunk makes of a parameter's first dimension."""

from __future__ import annotations

from zerosim.partition.buffers import padded
from zerosim.workload import Parameter


def chunk(parameter: Parameter, n_ranks: int) -> int:
    """Elements of a parameter that each rank stores: those of chunk 0, to which all ranks pad."""
    if not parameter.numel:
        return 0
    n_rows = parameter.shape[0] if parameter.shape else 1
    return padded(n_rows, n_ranks) // n_ranks * (parameter.numel // n_rows)


def chunk_owned(parameter: Parameter, n_ranks: int, rank: int) -> int:
    """Real elements of a parameter that `rank` owns: none past the last row."""
    each = chunk(parameter, n_ranks)
    return max(0, min(each, parameter.numel - rank * each))
