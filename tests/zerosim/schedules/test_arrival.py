"""In which order gradients come, parameter by parameter, and in which order torch lists parameters."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from zerosim.models import Sizes, transformer
from zerosim.schedules.arrival import (
    Key,
    arrived,
    begun,
    completed,
    defined,
    handed,
    layer_of,
    listed,
    used,
)
from zerosim.workload import Layer, Module, Parameter, Unit, Workload

SIZES = Sizes(
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
TIED = transformer(SIZES)
APART = transformer(replace(SIZES, tied=False))


def names(workload: Workload, keys: Iterable[Key]) -> str:
    return " ".join(workload.units[unit].parameters[index].name for unit, index in keys)


def layer(name: str, *modules: tuple[int, ...]) -> Layer:
    return Layer(name, 0, 1, 2, 1, modules=tuple(Module("m", own, 1, 2) for own in modules))


def model(*layers: Layer) -> Workload:
    """One unit: a matrix w, its bias b, and a vector v."""
    unit = Unit("u", (Parameter("w", (3, 2)), Parameter("b", (3,)), Parameter("v", (2,))))
    return Workload("three", (unit,), layers, tokens=1)


def test_layers_and_modules_come_backwards_and_norms_as_they_are_defined() -> None:
    assert names(APART, arrived(APART)) == (
        "head.weight norm.weight norm.bias "
        "mlp.down.bias mlp.down.weight mlp.up.bias mlp.up.weight norm2.weight norm2.bias "
        "attention.out.bias attention.out.weight attention.qkv.bias attention.qkv.weight "
        "norm1.weight norm1.bias "
        "position.weight embedding.weight"
    )


def test_a_tied_embedding_is_begun_by_the_head_and_completed_by_the_first_layer() -> None:
    embedding = (0, 0)
    assert layer_of(begun(TIED))[embedding] == 2
    assert layer_of(completed(TIED))[embedding] == 0
    assert names(TIED, completed(TIED)[0]) == "position.weight embedding.weight"
    assert names(TIED, completed(TIED)[2]) == "norm.weight norm.bias"


def test_parameters_are_defined_by_the_first_layer_that_uses_them_whatever_their_unit() -> None:
    assert names(TIED, defined(TIED)[:3]) == "embedding.weight position.weight norm1.weight"
    assert names(TIED, defined(TIED)[-2:]) == "norm.weight norm.bias"


def test_what_no_module_names_gets_no_gradient_and_is_listed_last() -> None:
    three = model(layer("0", (2,)), layer("1", (0,)))
    assert names(three, arrived(three)) == "w v"
    assert names(three, defined(three)) == "v w"
    assert names(three, listed(three)) == "v w b"


def test_a_layer_without_modules_uses_all_of_its_unit() -> None:
    three = model(layer("0"))
    assert used(three) == (((0, 0), (0, 1), (0, 2)),)
    assert names(three, arrived(three)) == "v b w"


def test_a_parameter_in_two_modules_of_a_layer_is_complete_with_the_first_of_them() -> None:
    three = model(layer("0", (0,), (2,), (0,)))
    assert names(three, arrived(three)) == "v w"


def test_a_bias_is_handed_out_before_its_matrix_and_after_a_norms_weight() -> None:
    linear = Unit("linear", (Parameter("weight", (3, 2)), Parameter("bias", (3,))))
    norm = Unit("norm", (Parameter("weight", (3,)), Parameter("bias", (3,))))
    assert (handed(linear, (0, 1)), handed(norm, (0, 1))) == ((1, 0), (0, 1))
