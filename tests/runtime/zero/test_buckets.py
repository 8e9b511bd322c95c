"""Buckets fill in a static order or as gradients arrive; units name them."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from zerosim.errors import UnknownNameError
from zerosim_runtime.zero.buckets import Dynamic, Static, Weight, cut
from zerosim_runtime.zero.rows import lay_rows, read_rows
from zerosim_runtime.zero.units import label_of, unit_of, units_of

WEIGHTS = {
    name: Weight(nbytes, "float32") for name, nbytes in zip("abcd", (8, 4, 4, 4), strict=True)
}


def test_a_bucket_closes_when_its_size_reaches_the_cap() -> None:
    assert cut("abcd", WEIGHTS, 8) == (("a",), ("b", "c"), ("d",))
    assert cut("abcd", WEIGHTS, 1) == (("a",), ("b",), ("c",), ("d",))


def test_buckets_hold_one_dtype_each() -> None:
    mixed = {**WEIGHTS, "b": Weight(4, "bfloat16")}
    assert cut("abcd", mixed, 100) == (("a", "c", "d"), ("b",))


def test_static_buckets_are_reduced_in_order_whatever_arrives_first() -> None:
    order = Static((("a",), ("b", "c"), ("d",)))

    assert list(order.arrived("c")) == []
    assert list(order.arrived("a")) == [("a",)]
    assert list(order.arrived("d")) == []
    assert list(order.rest()) == [("b", "c"), ("d",)]
    assert list(order.arrived("a")) == [("a",)]


def test_dynamic_buckets_hold_what_arrives_and_leave_out_the_rest() -> None:
    order = Dynamic(WEIGHTS, 8)

    assert list(order.arrived("c")) == []
    assert list(order.arrived("b")) == [("c", "b")]
    assert list(order.arrived("d")) == []
    assert list(order.rest()) == [("d",)]
    assert list(order.rest()) == []


def test_rows_are_laid_into_a_part_of_a_bucket() -> None:
    bucket = torch.full((4, 3), 9.0)

    lay_rows(bucket[:, 1:], torch.tensor([[1.0, 2, 3], [4, 5, 6]]).t())

    assert bucket.tolist() == [[9, 1, 4], [9, 2, 5], [9, 3, 6], [9, 0, 0]]
    for numel in (6, 5, 1):
        back = torch.empty(numel)
        read_rows(back, bucket[:, 1:])
        assert back.tolist() == [1, 4, 2, 5, 3, 6][:numel]


def test_a_parameter_without_elements_has_empty_rows() -> None:
    lay_rows(torch.empty(2, 0), torch.empty(0, 5))
    read_rows(torch.empty(0), torch.empty(2, 0))


class _Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(3, 2)
        self.blocks = nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2)])


def test_units_are_the_entries_of_module_lists_else_the_children() -> None:
    assert units_of(_Net(), None) == ("blocks.0", "blocks.1")
    assert units_of(nn.Sequential(nn.Linear(1, 1), nn.Tanh()), None) == ("0", "1")
    assert units_of(nn.ModuleList([nn.Linear(1, 1)]), None) == ("0",)
    assert units_of(_Net(), ["embedding"]) == ("embedding",)


def test_a_unit_that_is_no_module_is_refused() -> None:
    with pytest.raises(UnknownNameError, match=r"no module 'blocks.2': did you mean 'blocks"):
        units_of(_Net(), ["blocks.2"])


def test_a_bucket_is_named_after_its_first_and_last_unit() -> None:
    units = ("blocks.1", "blocks.10")
    named = {name: unit_of(name, units) for name in ("blocks.10.bias", "blocks.1.bias", "head")}

    assert named == {"blocks.10.bias": "blocks.10", "blocks.1.bias": "blocks.1", "head": ""}
    assert label_of(("blocks.10.bias", "blocks.1.bias"), named) == "blocks.10-blocks.1"
    assert label_of(("blocks.1.bias",), named) == "blocks.1"
