"""Residual states: the paper's examples, Korthikanti's table, DeepSpeed's estimators, NCCL's buffers."""

from __future__ import annotations

import pytest

from zerosim.errors import ScenarioError
from zerosim.memory.residual import (
    NCCL_BUFFER_BYTES,
    RECOMPUTE_SHARE,
    Transformer,
    activation_bytes,
    checkpoints,
    deepspeed_zero2,
    deepspeed_zero3,
    model_parallel_elements,
    paper_activations,
)

GPT2 = Transformer(layers=48, hidden=1600, heads=25, seq=1024, batch=32)
GPT3 = Transformer(layers=96, hidden=12288, heads=96, seq=2048, batch=1)
HUNDRED = Transformer(layers=125, hidden=8192, heads=64, seq=1024, batch=32)
GB = 10**9
GIB = 2**30


def test_gpt2_keeps_30_billion_elements_60_gb_in_16_bits() -> None:
    assert paper_activations(GPT2) == 30_198_988_800
    assert round(paper_activations(GPT2) * 2 / GB, 2) == 60.40


def test_gpt2_with_checkpoints_keeps_six_gb_not_the_eight_of_the_paper() -> None:
    kept, live = int(checkpoints(GPT2)) * 2, paper_activations(GPT2) * 2 // GPT2.layers
    assert (round(kept / GB, 3), round(live / GB, 3)) == (5.033, 1.258)
    assert round((kept + live) / GB, 3) == 6.291
    logits = GPT2.batch * GPT2.seq * 50257 * 2
    assert round((kept + logits) / GB, 2) == 8.33


def test_gpt2_by_korthikantis_count() -> None:
    figures = (
        activation_bytes(GPT2),
        activation_bytes(GPT2, flash=True),
        activation_bytes(GPT2, recompute="full"),
    )
    assert [round(float(f) / GB, 2) for f in figures] == [286.89, 85.56, 5.03]


def test_a_hundred_billion_checkpoints_twice_what_the_paper_prints() -> None:
    elements = float(checkpoints(HUNDRED))
    assert round(elements / GB, 3) == 33.554  # the paper's "33 GB" counts a byte an element
    assert round(elements * 2 / GB, 1) == 67.1
    assert round(float(checkpoints(HUNDRED, 16)) * 2 / GB, 2) == 4.19


@pytest.mark.parametrize(("layers", "params", "kept"), [(100, 80.5, 53.7), (150, 120.8, 80.5)])
def test_models_beside_it(layers: int, params: float, kept: float) -> None:
    model = Transformer(layers, 8192, 64, 1024, 32)
    assert round(model.n_params / GB, 1) == params
    assert round(float(checkpoints(model)) * 2 / GB, 1) == kept


def test_partitioned_checkpoints_add_a_twelfth_to_what_model_parallelism_moves() -> None:
    plain = model_parallel_elements(GPT2)
    assert plain == 12 * 32 * 1024 * 1600
    more = model_parallel_elements(GPT2, partitioned=True) / plain - 1
    assert round(more, 4) == 0.0833


def test_recomputing_costs_a_third() -> None:
    assert round(float(RECOMPUTE_SHARE), 2) == 0.33


def test_gpt3_on_eight_tensor_parallel_ranks() -> None:
    figures = (
        activation_bytes(GPT3, tensor_parallel=8),
        activation_bytes(GPT3, tensor_parallel=8, sequence_parallel=True),
        activation_bytes(GPT3, tensor_parallel=8, sequence_parallel=True, recompute="selective"),
        activation_bytes(GPT3, tensor_parallel=8, recompute="full"),
    )
    assert [round(float(f) / GB, 2) for f in figures] == [55.57, 34.43, 10.27, 4.83]


def test_deepspeeds_estimator_of_stage_2_counts_18_bytes_a_shard() -> None:
    computed = deepspeed_zero2(2_851_000_000, 8)
    assert round(computed / GIB, 2) == 11.28
    # DeepSpeed's docs/memory.rst prints what its code gave before: 4Ψ + 16Ψ/N.
    assert round((4 + 16 / 8) * 2_851_000_000 / GIB, 2) == 15.93
    assert deepspeed_zero2(1000, 8, offload=True) == 2000


def test_deepspeeds_estimator_of_stage_3() -> None:
    figures = [
        deepspeed_zero3(2_851_000_000, 8, 32_000_000, offload)
        for offload in ("none", "optimizer", "all")
    ]
    assert [round(f / GIB, 2) for f in figures] == [6.09, 0.78, 0.12]


def test_nccl_takes_nine_mib_a_channel_and_peer() -> None:
    assert NCCL_BUFFER_BYTES / 2**20 == 9.1875
    assert 24 * NCCL_BUFFER_BYTES / 2**20 == 220.5


def test_unknown_ways_are_refused() -> None:
    with pytest.raises(ScenarioError, match="recompute is 'some': give none, selective, full"):
        activation_bytes(GPT2, recompute="some")
    with pytest.raises(ScenarioError, match="offload is 'disk': give none, optimizer, all"):
        deepspeed_zero3(1, 1, 1, "disk")
