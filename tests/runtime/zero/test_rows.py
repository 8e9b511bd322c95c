"""The even split pads and cuts; options refuse what cannot be."""

from __future__ import annotations

import pytest
import torch

from zerosim.errors import InputError, UnknownNameError
from zerosim_runtime.zero.options import Options
from zerosim_runtime.zero.rows import join_rows, piece_of, split_rows


def test_a_parameter_is_padded_and_split_by_rank() -> None:
    tensor = torch.arange(10.0).view(2, 5)
    piece = piece_of("weight", tensor, 4)

    rows = split_rows(tensor, piece, 4)

    assert piece.row == 3
    assert rows.tolist() == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 0, 0]]
    assert torch.equal(join_rows(rows, piece), tensor)


def test_a_parameter_smaller_than_the_world_leaves_ranks_padding_only() -> None:
    rows = split_rows(torch.tensor([7.0]), piece_of("scale", torch.tensor([7.0]), 3), 3)

    assert rows.tolist() == [[7], [0], [0]]


def test_options_refuse_what_cannot_be() -> None:
    with pytest.raises(UnknownNameError, match="no optimizer 'lion'"):
        Options(optimizer="lion")
    with pytest.raises(InputError, match="stage is 4: give 1, 2 or 3"):
        Options(stage=4)
    with pytest.raises(InputError, match="in_flight is 0: give at least 1"):
        Options(in_flight=0)
