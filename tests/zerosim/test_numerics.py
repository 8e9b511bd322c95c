"""The byte convention, held against the ZeRO paper's tables (arXiv 1910.02054)."""

from __future__ import annotations

import pytest

from zerosim.errors import UnknownNameError
from zerosim.numerics import Numerics

PAPER = Numerics("float16", "float16", "adam")


def states_gb(n_params: float, n_ranks: int, zero: int) -> float:
    """Bytes of parameters, gradients and optimizer states of one rank, in GB."""
    shards = [n_ranks if zero >= stage else 1 for stage in (3, 2, 1)]
    widths = (PAPER.param_bytes, PAPER.grad_bytes, PAPER.optimizer_bytes)
    return sum(n_params * width / n for width, n in zip(widths, shards, strict=True)) / 1e9


def test_sixteen_bit_adam_takes_2_and_2_and_12_bytes() -> None:
    assert (PAPER.param_bytes, PAPER.grad_bytes, PAPER.optimizer_bytes) == (2, 2, 12)


def test_float32_adam_takes_4_and_4_and_8_bytes() -> None:
    numerics = Numerics("float32", "float32", "adamw")
    assert (numerics.param_bytes, numerics.grad_bytes, numerics.optimizer_bytes) == (4, 4, 8)


def test_sgd_keeps_nothing_in_float32_and_a_master_copy_in_bfloat16() -> None:
    assert Numerics("float32", "float32", "sgd").optimizer_bytes == 0
    assert Numerics("bfloat16", "bfloat16", "sgd").optimizer_bytes == 4
    assert Numerics("float32", "float32", "momentum").optimizer_bytes == 4


def test_eight_bit_adam_keeps_a_byte_a_moment() -> None:
    assert Numerics("bfloat16", "bfloat16", "adam8bit").optimizer_bytes == 6
    assert Numerics("float32", "float32", "adam8bit").optimizer_bytes == 2


def test_without_a_master_copy_moments_are_as_wide_as_the_stored_parameters() -> None:
    assert Numerics("bfloat16", "bfloat16", "adam", master=False).optimizer_bytes == 4
    assert Numerics("bfloat16", "bfloat16", "sgd", master=False).optimizer_bytes == 0
    mixed = Numerics("bfloat16", "bfloat16", "adam", storage_dtype="float32", master=False)
    assert mixed.optimizer_bytes == 8


def test_float64_states_are_as_wide_as_the_parameters() -> None:
    assert Numerics("float64", "float64", "adam").optimizer_bytes == 16


def test_an_adam_step_touches_28_bytes_a_parameter_in_sixteen_bit() -> None:
    # Gradient read 2, master copy and moments read and written 24, parameter written 2.
    assert PAPER.update_bytes == 28


def test_a_foreach_adamw_touches_80_bytes_a_float32_parameter() -> None:
    # mul 2, lerp 3, mul 2, addcmul 3, sqrt 2, div 2, add 2, addcdiv 4: 20 numbers, 2.9 times the 7 of one kernel.
    plain = Numerics("float32", "float32", "adamw", foreach=True)
    assert plain.update_bytes == 20 * 4
    # A 16-bit parameter beside its master is written, too.
    assert Numerics("bfloat16", "float32", "adamw", foreach=True).update_bytes == 20 * 4 + 2
    assert Numerics("float32", "float32", "sgd", foreach=True).update_bytes == 12


def test_a_fused_adam_step_with_float32_gradients_touches_30_bytes_a_parameter() -> None:
    assert Numerics("bfloat16", "float32", "adam").update_bytes == 30


# A1-A4 of the check cases: 16Ψ, 4Ψ + 12Ψ/N, 2Ψ + 14Ψ/N, 16Ψ/N.
@pytest.mark.parametrize(
    ("n_params", "n_ranks", "zero", "gigabytes"),
    [
        (1.5e9, 1, 0, 24.0),
        (7.5e9, 64, 0, 120.0),
        (7.5e9, 64, 1, 31.40625),
        (7.5e9, 64, 2, 16.640625),
        (7.5e9, 64, 3, 1.875),
        (7.5e9, 4, 1, 52.5),
        (7.5e9, 4, 2, 41.25),
        (7.5e9, 1024, 3, 0.1171875),
        (128e9, 1024, 1, 513.5),
        (128e9, 1024, 2, 257.75),
        (1e12, 256, 1, 4046.875),
        (1e12, 1024, 3, 15.625),
    ],
)
def test_model_states_are_those_of_the_papers_table(
    n_params: float, n_ranks: int, zero: int, gigabytes: float
) -> None:
    assert states_gb(n_params, n_ranks, zero) == gigabytes


@pytest.mark.parametrize("fields", [("float23", "float32", "adam"), ("float32", "float3", "adam")])
def test_unknown_dtypes_are_refused(fields: tuple[str, str, str]) -> None:
    with pytest.raises(UnknownNameError, match="no dtype"):
        Numerics(*fields)


def test_an_unknown_optimizer_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="no optimizer 'adamm': did you mean 'adam'"):
        Numerics("float32", "float32", "adamm")
