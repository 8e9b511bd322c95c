"""How Gemini sizes its chunks, and which parameters share one."""

from __future__ import annotations

import pytest

from zerosim.errors import ScenarioError
from zerosim.schedules.gemini.chunks import Chunk, chunked, searched
from zerosim.schedules.gemini.options import GeminiOptions

MEBI = 2**20


def test_a_model_below_the_smallest_chunk_is_one_chunk_that_stays_gathered() -> None:
    made = chunked((100, 200), 8, GeminiOptions())
    assert made.keep_gathered
    assert made.chunks == (Chunk(0, 300, (0, 1)),)


def test_parameters_are_appended_in_order_and_what_does_not_fit_opens_the_next_chunk() -> None:
    made = chunked((6, 3, 4, 20, 1), 4, GeminiOptions(chunk_size=10))
    assert not made.keep_gathered
    assert made.chunks == (
        Chunk(0, 12, (0, 1)),  # 10 padded to 4 ranks
        Chunk(1, 12, (2,)),
        Chunk(2, 20, (3,)),  # larger than a chunk: one of its own
        Chunk(3, 12, (4,)),
    )


def test_the_search_takes_the_size_that_leaves_the_least_unused() -> None:
    # 2,048 wastes 548 three times; 3,072 holds two and wastes 72 + 1,572; 4,096 wastes 1,096 + 2,596;
    # 5,120 holds all three and wastes 620.
    options = GeminiOptions(min_chunk_size_m=0.0, search_range_m=1)
    sizes = (1500, 1500, 1500)
    assert searched(sizes, options) == 5120


def test_the_search_goes_by_multiples_of_the_hidden_size() -> None:
    options = GeminiOptions(min_chunk_size_m=0.0, search_range_m=1, hidden_dim=1500)
    assert searched((1500, 1500, 1500), options) == 1500


def test_extremely_large_parameters_are_left_out_of_the_search() -> None:
    options = GeminiOptions(min_chunk_size_m=0.0, search_range_m=0)
    assert searched((1024,) * 20 + (10**6,), options) == 1024


def test_the_search_begins_at_the_smallest_size() -> None:
    sizes = (10 * MEBI,) * 8
    assert searched(sizes, GeminiOptions(search_range_m=0)) == 32 * MEBI
    # 40 Mi elements hold four parameters, with nothing left.
    assert searched(sizes, GeminiOptions()) == 40 * MEBI


@pytest.mark.parametrize("n_ranks", [3, 7])
def test_every_chunk_divides_by_the_ranks(n_ranks: int) -> None:
    options = GeminiOptions(min_chunk_size_m=0.0, search_range_m=1)
    made = chunked((1500, 900, 1500, 10**5), n_ranks, options)
    assert all(chunk.elements % n_ranks == 0 for chunk in made.chunks)


def test_a_search_among_more_sizes_than_memory_holds_is_refused() -> None:
    options = GeminiOptions(search_range_m=500_000_000)
    with pytest.raises(ScenarioError, match="search_range_m is 500000000, 512000000000 sizes to"):
        searched((100, 200), options)
