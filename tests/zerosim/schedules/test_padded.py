"""What the padding of a schedule makes of three layers of a 3 x 3 weight and a bias of 3, on 4 ranks."""

from __future__ import annotations

from typing import Any

import pytest

from zerosim.models import uniform
from zerosim.numerics import Numerics
from zerosim.schedules import SCHEDULES

EVENLY = 3 * (12 + 4)  # each parameter to a multiple of 4


@pytest.mark.parametrize(
    ("name", "options", "elements"),
    [
        *((name, {}, EVENLY) for name in ("zero1", "zero2", "zero3", "deepspeed-3")),
        *((name, {}, EVENLY) for name in ("colossalai-1", "colossalai-2")),
        *((name, {}, 36) for name in ("colossalai-1-old", "colossalai-2-old", "zero-redundancy")),
        ("deepspeed-1", {}, 40),  # all of it to a multiple of 2 a rank
        ("deepspeed-2", {"parameter_alignment": True}, 72),  # starts at 0, 16, 24, 40, 48, 64
        ("fsdp1", {}, 36),  # a unit of 12 divides
        ("fsdp1", {"use_orig_params": True}, 60),  # the bias starts at 16, its end goes to 20
        ("fsdp1", {"sharding_strategy": "NO_SHARD"}, 36),
        ("fsdp2", {}, 3 * (4 * 3 + 4)),  # 3 rows on 4 ranks: one row each
        ("gemini", {}, 36),  # a small model is one chunk
        ("gemini", {"chunk_size": 13}, 48),  # chunks of 16 that hold 12
        ("megatron", {}, 384),  # starts at multiples of 64, the end at one of 128
    ],
)
def test_the_padding_is_told(name: str, options: dict[str, Any], elements: int) -> None:
    schedule = SCHEDULES[name]
    model = uniform(layers=3, hidden=3, tokens=1)
    assert schedule.padded is not None
    assert schedule.padded(model, 4, Numerics(), schedule.options(**options)) == elements


def test_only_ddp_splits_no_parameters() -> None:
    assert [name for name in SCHEDULES if SCHEDULES[name].padded is None] == ["ddp"]
