"""Closed forms of what is sent: the published cases, and what the simulated schedules send."""

from __future__ import annotations

from fractions import Fraction

import pytest

from zerosim.errors import UnknownNameError
from zerosim.scenario import load_scenario, run
from zerosim.schedules import SCHEDULES
from zerosim.volumes import VOLUMES, elements_sent, zeropp_share

PSI = 10**6


@pytest.mark.parametrize(
    ("scheme", "n_ranks", "times"),
    [
        ("ddp", 8, "1.75"),  # C1
        ("ddp", 64, "1.96875"),
        ("zero1", 8, "1.75"),  # C2
        ("zero2", 64, "1.96875"),
        ("colossalai-2", 8, "1.75"),
        ("megatron", 8, "1.75"),
        ("deepspeed-1", 8, "2.625"),  # C3
        ("deepspeed-2", 64, "2.953125"),
        ("deepspeed-2-reduce", 8, "1.75"),  # C3b
        ("colossalai-1", 8, "2.625"),  # C3c
        ("zero3", 8, "2.625"),  # C4
        ("fsdp", 64, "2.953125"),
        ("deepspeed-3", 8, "1.75"),  # C4c
    ],
)
def test_volumes_are_those_of_the_check_cases(scheme: str, n_ranks: int, times: str) -> None:
    assert elements_sent(scheme, PSI, n_ranks) == Fraction(times) * PSI


def test_gloo_sends_four_times_psi_for_zero3() -> None:
    assert elements_sent("zero3", PSI, 4, backend="gloo") == 4 * PSI * Fraction(3, 4)  # C5


def test_zeropp_sends_a_quarter_across_nodes() -> None:
    assert zeropp_share() == Fraction(1, 4)  # C6


@pytest.mark.parametrize(
    ("scheme", "reductions", "gathers"),
    [("zero1", 1, 1), ("zero2", 2, 1), ("zero3", 2, 4), ("fsdp-no-sync", 1, 4)],
)
def test_accumulation_repeats_what_each_micro_batch_needs(
    scheme: str, reductions: int, gathers: int
) -> None:
    volume = VOLUMES[scheme]  # C7, k = 2
    assert volume.scatters.of(2) + volume.all_reduces.of(2) == reductions
    assert volume.gathers.of(2) == gathers


def test_an_unknown_scheme_is_named() -> None:
    with pytest.raises(UnknownNameError, match="no volume 'zero9'"):
        elements_sent("zero9", PSI, 2)


OPTIONS = {
    "zero3": ["keep_last=false"],
    "deepspeed-3": ["stage3_param_persistence_threshold=0"],
}
"""What makes a schedule move what its closed form says."""


@pytest.mark.parametrize("scheme", [name for name in VOLUMES if name in SCHEDULES])
@pytest.mark.parametrize("micro_batches", [1, 2])
def test_a_simulated_step_sends_its_closed_form(scheme: str, micro_batches: int) -> None:
    words = [
        f"schedule={scheme}",
        "world_size=8",
        "cluster.name=dgx-h100",
        "hidden=1024",
        f"micro_batches={micro_batches}",
        "steps=3",
        "dtype=float32",
        *OPTIONS.get(scheme, []),
    ]
    trace = run(load_scenario("lesson-zero3", words))
    steady = trace.spans.filter((trace.spans["step"] == 3) & (trace.spans["rank"] == 0))
    sent = int(steady["wire_bytes"].drop_nulls().sum())
    n_params = 3 * (1024 * 1024 + 1024)
    closed = 4 * elements_sent(scheme, n_params, 8, micro_batches=micro_batches)
    # Scalars that an engine reduces for its gradient norm, and the rounding of each bucket.
    assert 0 <= sent - closed <= 64
