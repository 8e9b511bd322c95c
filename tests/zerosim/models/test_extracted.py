"""A record of a user's model becomes a workload; a broken one becomes one sentence."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zerosim.errors import InputError, ScenarioError
from zerosim.models import Use, extracted
from zerosim.workload import Layer, Module, Parameter, Unit, Work

RECORD: dict[str, Any] = {
    "format": "zerosim-workload",
    "version": 1,
    "name": "Net",
    "batch": 2,
    "tokens": 64,
    "scales": True,
    "causal": False,
    "dtype": "bfloat16",
    "units": [
        {"names": ["root"], "parameters": [{"name": "table", "shape": [10, 4]}]},
        {
            "names": ["0", "1"],
            "parameters": [{"name": "w", "shape": [4, 4]}, {"name": "b", "shape": [4]}],
        },
    ],
    "layers": [
        {
            "names": ["emb"],
            "unit": 0,
            "forward_flops": 0,
            "backward_flops": 0,
            "masked_flops": 0,
            "kept": {},
            "inputs": 0,
            "forward_elements": [40, 256],
            "backward_elements": 512,
            "forward_workspace": [0],
            "backward_workspace": [0],
            "unsaved_workspace": [0],
            "logits": 0,
            "modules": [],
        },
        {
            "names": ["0", "1"],
            "unit": 1,
            "forward_flops": 1000,
            "backward_flops": 2000,
            "masked_flops": 100,
            "kept": {"bfloat16": 300, "float32": 10, "bool": 5},
            "inputs": 64,
            "forward_elements": 6,
            "backward_elements": 8,
            "forward_workspace": [0],
            "backward_workspace": [0],
            "unsaved_workspace": [0],
            "logits": 0,
            "modules": [
                {
                    "name": "linear",
                    "parameters": [0, 1],
                    "forward_flops": 1000,
                    "backward_flops": 2000,
                    "masked_flops": 100,
                }
            ],
        },
    ],
}
PAIR = Use(micro_batch=2, micro_batches=1, param_bytes=2, checkpointing="none")


def changed(path: str, value: object) -> dict[str, Any]:
    """The record with the value at a path such as `layers.1.unit` replaced."""
    record = deepcopy(RECORD)
    *way, last = (int(part) if part.isdigit() else part for part in path.split("."))
    place: Any = record
    for step in way:
        place = place[step]
    place[last] = value
    return record


def test_an_entry_stands_for_each_of_its_names() -> None:
    workload = extracted(RECORD, PAIR)
    block = (Parameter("w", (4, 4)), Parameter("b", (4,)))
    root = Unit("root", (Parameter("table", (10, 4)),))
    assert workload.units == (root, Unit("0", block), Unit("1", block))
    assert [(layer.name, layer.unit) for layer in workload.layers] == [
        ("emb", 0),
        ("0", 1),
        ("1", 2),
    ]
    assert workload.tokens == 64


def test_the_numbers_of_a_layer_are_those_of_the_record() -> None:
    assert extracted(RECORD, PAIR).layers[2] == Layer(
        "1",
        2,
        1000,
        2000,
        activations=300 + (4 * 10 + 5 + 1) // 2,  # bytes of the others, as elements of 2 bytes
        forward_elements=6,
        backward_elements=8,
        modules=(Module("linear", (0, 1), 1000, 2000),),
    )


def test_numbers_grow_with_the_batch_and_fixed_parts_do_not() -> None:
    workload = extracted(RECORD, Use(6, 1, 2, "none"))
    assert workload.layers[0].forward_elements == 40 + 3 * 256
    assert workload.layers[1].forward_flops == 3000
    assert workload.tokens == 192


def test_a_batch_that_divides_no_number_is_refused() -> None:
    even = changed("layers.1.kept", {"bfloat16": 300})
    assert extracted(even, Use(1, 1, 2, "none")).layers[1].forward_flops == 500
    with pytest.raises(ScenarioError, match=r"kept.bool does not divide; extract with --batch 1"):
        extracted(RECORD, Use(1, 1, 2, "none"))


def test_another_batch_is_refused_where_it_is_not_known_to_scale() -> None:
    record = changed("scales", value=False)
    assert extracted(record, PAIR).tokens == 64
    with pytest.raises(ScenarioError, match="was extracted with 2 and does not grow"):
        extracted(record, Use(4, 1, 2, "none"))


def test_what_has_the_models_dtype_follows_that_of_the_scenario() -> None:
    wide = extracted(RECORD, Use(2, 1, 4, "none")).layers[1]
    assert wide.activations == 300 + (4 * 10 + 5 + 3) // 4


def test_model_flops_are_those_counted() -> None:
    workload = extracted(RECORD, Use(2, 3, 2, "none"))
    assert workload.model_flops() == 3 * 2 * 3000
    assert workload.model_flops(causal=True) == 3 * 2 * (3000 - 3 * 100)


def test_causal_kernels_skip_what_the_mask_makes_needless() -> None:
    layer = extracted(changed("causal", value=True), PAIR).layers[1]
    assert (layer.forward_flops, layer.backward_flops) == (900, 1800)
    assert layer.modules == (Module("linear", (0, 1), 900, 1800),)


def test_kernels_and_attention_are_those_of_the_record() -> None:
    record = changed("layers.1.forward_kernels", 7)
    record["layers"][1] |= {"backward_kernels": 12, "attention_flops": 200}
    full = extracted(record, PAIR).layers[1]
    assert full.forward_work == Work((), 200, 7)
    assert full.backward_work == Work((), 500, 12)
    causal = extracted(record | {"causal": True}, PAIR).layers[1]
    assert causal.forward_work == Work((), 100, 7)


def test_a_record_that_does_not_tell_its_kernels_is_read_as_ever() -> None:
    assert extracted(RECORD, PAIR).layers[1].forward_work is None


def test_full_checkpointing_keeps_inputs_and_computes_the_layer_again() -> None:
    layer = extracted(RECORD, Use(2, 1, 2, "full")).layers[1]
    assert (layer.activations, layer.recomputed, layer.recompute_flops) == (64, 323 - 64, 1000)


@pytest.mark.parametrize(
    ("path", "value", "sentence"),
    [
        ("format", "other", "the record's format is 'other'"),
        ("version", 2, "the record has version 2, this zerosim reads 1"),
        ("batch", 0, "record.batch is 0: give a whole number from 1"),
        ("tokens", "64", "record.tokens is '64': give a whole number or"),
        ("dtype", 3, "record.dtype is 3: give some text"),
        ("units", {}, "record.units is {}: give a list"),
        ("units.0.names", [], r"record.units\[0\] has 0 names"),
        ("units.0.parameters.0.shape", [0], r"shape is \[0\]: give sizes of 1 or more"),
        ("units.0.parameters.0.frozen", True, "parameter 'table' is frozen"),
        ("layers", [], "workload 'Net' has 0 layers"),
        ("layers.1.unit", 2, r"record.layers\[1\] names unit 3: there are 3"),
        ("layers.1.unit", 0, "stands for units that differ"),
        ("layers.1.names", ["emb", "1"], "has the name 'emb' again"),
        ("layers.1.forward_flops", -1, "forward_flops is -1: give 0 or more"),
        ("layers.1.forward_flops", 2**60, "give a whole number or"),
        ("layers.1.forward_flops", True, "forward_flops is True: give a whole"),
        ("layers.1.kept", {"int128": 1}, "no dtype 'int128'"),
        ("layers.1.modules.0.parameters", [2], r"parameters is \[2\]: give indices"),
        ("layers.0", 7, r"record.layers\[0\] is 7: give a table"),
    ],
)
def test_a_broken_record_is_one_sentence(path: str, value: object, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        extracted(changed(path, value), PAIR)


@given(
    path=st.sampled_from(
        ["name", "batch", "tokens", "units.0", "units.1.parameters", "layers.1.kept"]
    ),
    value=st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
        max_leaves=5,
    ),
)
def test_whatever_a_record_holds_the_answer_is_a_workload_or_a_sentence(
    path: str, value: object
) -> None:
    try:
        extracted(changed(path, value), PAIR)
    except InputError as error:
        assert str(error)  # noqa: PT017 - both ends are right
