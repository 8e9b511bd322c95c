"""Loss scales halve at an overflow and double after 2,000 good steps; clipping rounds as torch does."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from zerosim.errors import InputError
from zerosim_runtime.zero import Options
from zerosim_runtime.zero.norm import clip_factor
from zerosim_runtime.zero.scale import Scale, scale_of


def test_a_dynamic_scale_halves_at_once_and_doubles_after_2000_good_steps() -> None:
    scale = Scale(8.0, dynamic=True)
    scale.after(overflow=True)
    assert (scale.value, scale.good) == (4.0, 0)
    for _ in range(1999):
        scale.after(overflow=False)
    assert scale.value == 4.0
    scale.after(overflow=False)
    assert (scale.value, scale.good) == (8.0, 0)


def test_a_fixed_scale_stays() -> None:
    scale = Scale(8.0, dynamic=False)
    scale.after(overflow=True)
    assert scale.value == 8.0


def test_the_option_0_is_a_dynamic_scale_that_begins_at_65536() -> None:
    assert scale_of(0) == Scale(65536.0, dynamic=True)
    assert scale_of(512) == Scale(512, dynamic=False)
    assert scale_of(None) is None


@pytest.mark.parametrize("norm", [0.1, 0.7, 3.3, 1e9, math.inf])
def test_a_clip_factor_is_that_of_torch(norm: float) -> None:
    parameter = nn.Parameter(torch.zeros(1))
    parameter.grad = torch.ones(1)
    nn.utils.clip_grads_with_norm_([parameter], 0.5, torch.tensor(norm))
    assert clip_factor(norm, 0.5, torch.float32) == parameter.grad.item()


def test_options_that_no_training_can_have_are_refused() -> None:
    with pytest.raises(InputError, match=r"dtype is torch.int8: give None or a float"):
        Options(dtype=torch.int8)
    with pytest.raises(InputError, match=r"clip_norm is nan: give None or a positive number"):
        Options(clip_norm=math.nan)
    with pytest.raises(InputError, match=r"loss_scale is -1: give None, 0 or a positive number"):
        Options(loss_scale=-1)
