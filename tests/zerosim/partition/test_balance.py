"""Balance at the size of real models: padding, what travels, and that counting thousands of ranks is quick."""

from __future__ import annotations

import time

import pytest

from zerosim.models import Sizes, transformer
from zerosim.partition import PARTITIONS, Balance, balance, even, rows

GPT2_XL = transformer(
    Sizes(
        layers=48,
        hidden=1600,
        heads=25,
        kv_heads=25,
        ffn=6400,
        vocab=50257,
        seq=1024,
        micro_batch=1,
        micro_batches=1,
        llama=False,
        tied=True,
    )
)
BLOCK = GPT2_XL.units[1:2]


@pytest.mark.parametrize(("n_ranks", "percent"), [(1024, 17.3), (4096, 92.0)])
def test_rows_of_a_gpt2_xl_block_move_more_bytes(n_ranks: int, percent: float) -> None:
    # FSDP2 stores and sends full chunks: 1600 rows become 2048, 4800 become 5120 or 8192.
    assert 100 * balance(rows(BLOCK, n_ranks)).waste == pytest.approx(percent, abs=0.05)


def test_the_even_split_of_the_same_block_moves_hardly_more() -> None:
    assert 100 * balance(even(BLOCK, 1024)).waste == pytest.approx(0.012, abs=5e-4)


def test_rows_leave_a_third_of_the_ranks_with_little() -> None:
    split = balance(rows(BLOCK, 4096))
    assert split.empty_ranks == 4096 - 3200  # the down projection of 1600 rows fills the fewest
    assert split.max_over_mean == pytest.approx(1.92, abs=5e-3)


def test_every_style_counts_4096_ranks_of_gpt2_xl_quickly() -> None:
    start = time.perf_counter()
    for style in PARTITIONS:
        assert sum(balance(PARTITIONS[style].divide(GPT2_XL.units, 4096)).loads) == GPT2_XL.n_params
    assert time.perf_counter() - start < 2


def test_a_model_without_elements_is_even() -> None:
    assert (Balance((0, 0), (0, 0)).max_over_mean, Balance((0, 0), (0, 0)).waste) == (1.0, 0.0)
