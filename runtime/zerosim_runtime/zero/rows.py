"""The even split: every parameter padded to `[world_size, -1]`; rank r owns row r."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from zerosim.partition import padded


@dataclass(frozen=True, slots=True)
class Piece:
    """One parameter tensor, by its name in the module; `row` elements of it lie on each rank."""

    name: str
    shape: tuple[int, ...]
    numel: int
    row: int


def piece_of(name: str, tensor: torch.Tensor, n_ranks: int) -> Piece:
    """How a parameter is split over `n_ranks`."""
    numel = tensor.numel()
    return Piece(name, tuple(tensor.shape), numel, padded(numel, n_ranks) // n_ranks)


def split_rows(tensor: torch.Tensor, piece: Piece, n_ranks: int) -> torch.Tensor:
    """The tensor as rows `[n_ranks, row]`, zeros at its end; a copy."""
    rows = tensor.new_zeros(n_ranks * piece.row)
    rows[: piece.numel].copy_(tensor.reshape(-1))
    return rows.view(n_ranks, piece.row)


def join_rows(rows: torch.Tensor, piece: Piece) -> torch.Tensor:
    """The parameter from its rows `[n_ranks, row]`: in its shape, without padding."""
    return rows.reshape(-1)[: piece.numel].view(piece.shape)


def lay_rows(rows: torch.Tensor, tensor: torch.Tensor) -> None:
    """Write the tensor into `rows` `[n_ranks, row]`, which may be a view, and zeros behind it."""
    row = rows.shape[1]
    flat = tensor.reshape(-1)
    full, rest = divmod(flat.numel(), max(row, 1))
    rows[:full].copy_(flat[: full * row].view(full, row))
    rows[full:].zero_()
    if rest:
        rows[full, :rest].copy_(flat[full * row :])


def read_rows(flat: torch.Tensor, rows: torch.Tensor) -> None:
    """Write `rows` `[n_ranks, row]`, which may be a view, into the flat tensor without their padding."""
    row = rows.shape[1]
    full, rest = divmod(flat.numel(), max(row, 1))
    flat[: full * row].view(full, row).copy_(rows[:full])
    if rest:
        flat[full * row :].copy_(rows[full, :rest])
