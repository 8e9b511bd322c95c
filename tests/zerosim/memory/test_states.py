"""Model states: every figure the ZeRO paper prints, beside the arithmetic where they part."""

from __future__ import annotations

from fractions import Fraction

import pytest

from zerosim.errors import ScenarioError
from zerosim.memory.conventions import CONVENTIONS
from zerosim.memory.quoted import (
    LARGEST,
    MEASURED,
    STATES,
    TABLE_2_BYTES,
    TABLE_2_RANKS,
    Quote,
)
from zerosim.memory.states import largest_model, states

PAPER = CONVENTIONS["paper"]
GB = 10**9


def gigabytes(n_params: float, stage: int, n_ranks: int) -> float:
    return states(int(n_params), PAPER, stage, n_ranks).nbytes / GB


def test_gpt2_takes_24_gb_of_which_3_are_weights() -> None:
    held = states(1_500_000_000, PAPER, 0, 1)
    assert held.nbytes == 24_000_000_000
    assert held.by_kind["parameters"] == 3_000_000_000


@pytest.mark.parametrize(
    ("stage", "expected"), [(0, 120.0), (1, 31.40625), (2, 16.640625), (3, 1.875)]
)
def test_seven_and_a_half_billion_on_64_ranks(stage: int, expected: float) -> None:
    assert gigabytes(7.5e9, stage, 64) == expected


def test_a_trillion_on_1024_ranks_takes_15_gb_and_five_eighths() -> None:
    assert gigabytes(1e12, 3, 1024) == 15.625
    assert round(15.625 * GB / 2**30, 2) == 14.55
    assert states(10**12, PAPER, 0, 1).nbytes == 16 * 10**12


TABLE_1: dict[float, dict[int, tuple[float, float, float]]] = {
    7.5e9: {
        1: (120, 120, 120),
        4: (52.5, 41.25, 30),
        16: (35.625, 21.5625, 7.5),
        64: (31.40625, 16.640625, 1.875),
        256: (30.3515625, 15.41015625, 0.46875),
        1024: (30.087890625, 15.102539063, 0.1171875),  # 15,102,539,062.5 bytes
    },
    128e9: {
        1: (2048, 2048, 2048),
        4: (896, 704, 512),
        16: (608, 368, 128),
        64: (536, 284, 32),
        256: (518, 263, 8),
        1024: (513.5, 257.75, 2),
    },
    1e12: {
        1: (16000, 16000, 16000),
        4: (7000, 5500, 4000),
        16: (4750, 2875, 1000),
        64: (4187.5, 2218.75, 250),
        256: (4046.875, 2054.6875, 62.5),
        1024: (4011.71875, 2013.671875, 15.625),
    },
}


@pytest.mark.parametrize("n_params", TABLE_1)
def test_table_1_of_the_paper_comes_out(n_params: float) -> None:
    for n_ranks, row in TABLE_1[n_params].items():
        assert tuple(gigabytes(n_params, stage, n_ranks) for stage in (1, 2, 3)) == row


def test_what_the_paper_prints_is_the_rounded_arithmetic_but_where_it_was_cut() -> None:
    parted = [
        (n_params, n_ranks, stage, quote.text)
        for (n_params, n_ranks, stage), quotes in STATES.items()
        for quote in quotes
        if not quote.agrees(states(n_params, PAPER, stage, n_ranks).nbytes)
    ]
    assert parted == [
        (128 * GB, 1024, 1, "513"),
        (128 * GB, 1024, 2, "257"),
        (10**12, 64, 1, "4187"),
        (10**12, 64, 2, "2218"),
        (10**12, 256, 1, "4046"),
        (10**12, 256, 2, "2054"),
        (10**12, 1024, 1, "4011"),
        (10**12, 1024, 2, "2013"),
    ]


def test_the_paper_prints_two_roundings_of_one_figure() -> None:
    assert [q.text for q in STATES[7_500_000_000, 64, 3]] == ["1.9", "1.88"]
    assert [q.text for q in STATES[10**12, 1024, 3]] == ["16", "15.6"]


def largest(stage: int, model_parallel: int = 1) -> float:
    return largest_model(TABLE_2_BYTES, PAPER, stage, TABLE_2_RANKS, model_parallel) / GB


def test_the_largest_models_on_64_ranks_of_32_gb() -> None:
    assert [round(largest(stage), 4) for stage in (0, 1, 2, 3)] == [2.0, 7.6418, 14.4225, 128.0]


@pytest.mark.parametrize(
    ("parallel", "row"),
    [
        (2, [4.0, 15.28, 28.85, 256.0]),
        (4, [8.0, 30.57, 57.69, 512.0]),
        (8, [16.0, 61.13, 115.38, 1024.0]),
        (16, [32.0, 122.27, 230.76, 2048.0]),
    ],
)
def test_model_parallelism_multiplies_the_exact_row(parallel: int, row: list[float]) -> None:
    assert [round(largest(stage, parallel), 2) for stage in (0, 1, 2, 3)] == row


def test_the_paper_multiplies_a_rounded_row_and_quotes_it_rounded_down() -> None:
    parted = {
        (parallel, stage): [q.text for q in quotes if not q.agrees(largest(stage, parallel) * GB)]
        for (parallel, stage), quotes in LARGEST.items()
    }
    assert {key: texts for key, texts in parted.items() if texts} == {
        (1, 1): ["7.5"],
        (2, 1): ["15.2"],
        (4, 1): ["30.4"],
        (8, 1): ["60.8"],
        (16, 1): ["121.6"],
        (4, 2): ["57.6"],
        (8, 2): ["115.2"],
        (16, 2): ["230.4"],
        (4, 3): ["500"],
        (8, 3): ["1000"],
        (16, 3): ["2000"],
    }


def test_ddp_ran_out_below_what_its_states_allow() -> None:
    assert largest(0) == 2.0
    assert [q.text for q in MEASURED[1, 0]] == ["1.3", "1.4"]


def test_what_ran_is_less_than_what_the_states_allow() -> None:
    ran = {key: max(float(q.text) for q in quotes) for key, quotes in MEASURED.items()}
    assert ran == {(1, 0): 1.4, (1, 1): 6.2, (16, 0): 20.0, (16, 1): 100.0}
    assert all(most < largest(stage, parallel) for (parallel, stage), most in ran.items())


def test_many_ranks_save_four_eight_and_n_times() -> None:
    n = 10**9
    one = states(n, PAPER, 0, 1).nbytes
    saved = [Fraction(one, states(n, PAPER, stage, n).nbytes) for stage in (1, 2, 3)]
    assert [round(float(s), 6) for s in saved] == [4.0, 8.0, n]


def test_megatrons_distributed_optimizer_takes_six_and_12_over_n() -> None:
    megatron = CONVENTIONS["megatron"]
    assert megatron.bytes_per_parameter == 18
    assert states(10**4, megatron, 1, 64).nbytes == 61875


def test_shares_that_do_not_divide_are_rounded_up_to_a_byte() -> None:
    assert states(1, PAPER, 3, 3).nbytes == 6
    assert states(1, PAPER, 3, 3).by_kind == {"parameters": 1, "gradients": 1, "optimizer": 4}


def test_a_stage_there_is_not_is_refused() -> None:
    with pytest.raises(ScenarioError, match="ZeRO stage 4 does not exist"):
        states(1, PAPER, 4, 1)


def test_no_ranks_are_refused() -> None:
    with pytest.raises(ScenarioError, match="1 parameters on 0 ranks"):
        states(1, PAPER, 1, 0)


def test_a_quote_agrees_when_its_digits_are_the_rounded_value() -> None:
    assert Quote("41.3", GB, "").agrees(41.25e9)
    assert not Quote("2", GB, "").agrees(1.4e9)
