"""Tensors of a replay: which ranks share them, in which dtype."""

import torch

from zerosim.kinds import Kind
from zerosim.plan import Axis, Op
from zerosim_runtime.replaying.traffic import dtype_of, instances


def _op(dtype: str, elements: int) -> Op:
    return Op(0, "AR0", Kind.ALL_REDUCE, "nccl", dtype=dtype, elements=elements)


def test_groups_of_an_axis_are_its_ranks_block_by_block() -> None:
    assert instances(Axis("world", 4), 4) == [[0, 1, 2, 3]]
    assert instances(Axis("node", 2), 4) == [[0, 1], [2, 3]]
    assert instances(Axis("across", 2, stride=2), 4) == [[0, 2], [1, 3]]


def test_a_dtype_that_backends_do_not_reduce_travels_as_bytes() -> None:
    assert dtype_of(_op("bfloat16", 6)) == (torch.bfloat16, 6)
    assert dtype_of(_op("float8_e4m3fn", 6)) == (torch.uint8, 6)
