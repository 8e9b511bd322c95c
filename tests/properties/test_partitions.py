"""Rules that every partition style keeps: each element has one owner, and the counts agree."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zerosim.partition import PARTITIONS, balance, pieces
from zerosim.workload import Parameter, Unit

EVERY_STYLE = pytest.mark.parametrize("style", list(PARTITIONS))


@st.composite
def models(draw: st.DrawFn) -> tuple[list[Unit], int]:
    """Some ranks, and units of parameters of 0 to 3N + 1 elements (as rows of 1 to 3)."""
    n_ranks = draw(st.integers(1, 9))
    shapes = st.tuples(st.integers(0, 3 * n_ranks + 1), st.integers(1, 3))
    sizes = st.lists(shapes.map(lambda s: s if s[1] > 1 else s[:1]), min_size=1, max_size=4)
    units = draw(st.lists(sizes, min_size=1, max_size=3))
    return [
        Unit(str(i), tuple(Parameter(str(j), shape) for j, shape in enumerate(unit)))
        for i, unit in enumerate(units)
    ], n_ranks


@EVERY_STYLE
@given(model=models())
def test_every_element_has_one_owner(style: str, model: tuple[list[Unit], int]) -> None:
    units, n_ranks = model
    made = PARTITIONS[style].divide(units, n_ranks)
    owners = Counter(
        (piece.parameter, element)
        for rank in range(n_ranks)
        for piece in pieces(made, rank)
        for element in range(piece.start, piece.stop)
    )
    every = [p.numel for unit in units for p in unit.parameters]
    assert owners == Counter((i, e) for i, numel in enumerate(every) for e in range(numel))


@EVERY_STYLE
@given(model=models())
def test_the_loads_are_the_pieces_and_fit_what_is_stored(
    style: str, model: tuple[list[Unit], int]
) -> None:
    units, n_ranks = model
    made = PARTITIONS[style].divide(units, n_ranks)
    split = balance(made)
    listed = [sum(p.stop - p.start for p in pieces(made, rank)) for rank in range(n_ranks)]
    assert list(split.loads) == listed
    assert all(load <= held for load, held in zip(split.loads, split.stored, strict=True))
    assert sum(split.stored) == sum(buffer.elements for buffer in made.buffers)
    assert split.padding >= 0


@EVERY_STYLE
@given(model=models())
def test_all_but_whole_parameters_store_the_same_on_every_rank(
    style: str, model: tuple[list[Unit], int]
) -> None:
    units, n_ranks = model
    if style != "whole":
        assert len(set(balance(PARTITIONS[style].divide(units, n_ranks)).stored)) == 1
