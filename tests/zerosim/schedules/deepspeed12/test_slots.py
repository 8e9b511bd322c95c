"""In which order parameters are defined, and their gradients ready."""

from __future__ import annotations

from zerosim.models import Sizes, transformer, uniform
from zerosim.schedules.deepspeed12.slots import Slot, defined, in_arrival
from zerosim.workload import Workload


def gpt(*, tied: bool) -> Workload:
    return transformer(
        Sizes(
            layers=1,
            hidden=4,
            heads=1,
            kv_heads=1,
            ffn=8,
            vocab=10,
            seq=3,
            micro_batch=1,
            micro_batches=1,
            llama=False,
            tied=tied,
        )
    )


def numels(slots: tuple[Slot, ...]) -> list[int]:
    return [slot.numel for slot in slots]


def test_parameters_are_defined_as_layers_use_them_whatever_their_unit() -> None:
    embedding, position, head = 10 * 4, 3 * 4, 10 * 4
    found = numels(defined(gpt(tied=False)))
    assert found[:2] == [embedding, position]
    assert found[-3:] == [4, 4, head]  # the last norm and the head, after the block


def test_a_tied_embedding_is_made_by_the_head_and_ready_at_the_very_end() -> None:
    model = gpt(tied=True)
    slots = defined(model)
    assert (slots[0].made, slots[0].ready) == (2, 0)
    assert in_arrival(model, slots)[-1] == slots[0]


def test_a_bias_is_ready_before_its_matrix() -> None:
    model = uniform(layers=2, hidden=3, tokens=1)
    assert numels(in_arrival(model, defined(model))) == [3, 9, 3, 9]


def test_a_norms_weight_is_ready_before_its_bias() -> None:
    model = gpt(tied=False)
    slots = defined(model)
    weight, bias = slots[2:4]  # norm1 of the block
    order = in_arrival(model, slots)
    assert order.index(weight) + 1 == order.index(bias)
