"""Which gradients a layer makes and completes, and when a bucket is full."""

from __future__ import annotations

import pytest

from zerosim.errors import UnknownNameError
from zerosim.models import Sizes, transformer, uniform
from zerosim.schedules.ready import (
    Flush,
    flushes,
    label,
    made,
    module_order,
    ready,
    unit_names,
    used,
    without,
)

TINY_GPT = transformer(
    Sizes(
        layers=1,
        hidden=4,
        heads=1,
        kv_heads=1,
        ffn=8,
        vocab=10,
        seq=2,
        micro_batch=1,
        micro_batches=1,
        llama=False,
        tied=True,
    )
)


def test_a_layer_uses_what_its_modules_name() -> None:
    names = [p.name for unit in TINY_GPT.units for p in unit.parameters]
    emb, _, head = used(TINY_GPT)
    assert [names[i] for i in emb] == ["embedding.weight", "position.weight"]
    assert [names[i] for i in head] == ["embedding.weight", "norm.weight", "norm.bias"]


def test_a_shared_matrix_is_made_by_its_last_layer_and_completed_by_its_first() -> None:
    uses = ((0, 1), (2,), (0, 3))
    assert ready(uses) == ((1, 0), (2,), (3,))
    assert made(uses) == ((1,), (2,), (3, 0))


def test_modules_list_parameters_by_their_first_layer_and_unused_ones_last() -> None:
    uses = ((0, 1), (4, 5), (0, 2))
    assert module_order(uses) == (0, 1, 4, 5, 2)
    assert module_order(uses, 6) == (0, 1, 4, 5, 2, 3)


def test_a_dropped_layer_is_left_out_and_a_wrong_name_gets_a_suggestion() -> None:
    three = uniform(layers=3, hidden=2, tokens=1)
    assert [layer.name for layer in without(three, "1, 0").layers] == ["2"]
    with pytest.raises(UnknownNameError, match="no layer '3'"):
        without(three, "3")


def test_buckets_are_called_by_the_units_at_their_ends() -> None:
    names = unit_names(uniform(layers=3, hidden=2, tokens=1))
    assert names == ("0", "0", "1", "1", "2", "2")
    assert [label(names, bucket) for bucket in ((5, 4), (5, 0))] == ["2", "2-0"]


def test_a_gradient_that_would_overflow_its_bucket_has_it_reduced_first() -> None:
    found = flushes((3, 2, 1, 0), numel=(4, 4, 4, 9), held=(4, 4, 4, 9), cap=8)
    assert found == (
        Flush(0, at=2, parameters=(3,)),  # larger than a bucket: alone, reduced when the next comes
        Flush(1, at=0, parameters=(2, 1)),
        Flush(2, at=None, parameters=(0,)),
    )


def test_padding_fills_a_bucket_and_does_not_count_when_a_gradient_arrives() -> None:
    # ColossalAI compares padded elements in the bucket plus the plain size of the new gradient.
    assert len(flushes((1, 0), numel=(5, 5), held=(8, 8), cap=13)) == 1
    assert len(flushes((1, 0), numel=(5, 5), held=(8, 8), cap=12)) == 2


def test_each_owner_has_a_bucket_and_what_is_left_goes_by_owner() -> None:
    found = flushes(
        (3, 2, 1, 0), numel=(4,) * 4, held=(4,) * 4, cap=4, owners={0: 0, 1: 1, 2: 0, 3: 1}
    )
    assert [(b.at, b.owner, b.parameters) for b in found] == [
        (1, 1, (3,)),
        (0, 0, (2,)),
        (None, 0, (0,)),
        (None, 1, (1,)),
    ]
