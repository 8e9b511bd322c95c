"""A module becomes a workload: parameters once, units in order, FLOPs as torch counts them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from tests.runtime.extraction import user_models
from zerosim.errors import InputError
from zerosim.models import Use, extracted
from zerosim.workload import Workload
from zerosim_runtime.examples_models import gpt2_xl
from zerosim_runtime.extract import extract

MODELS = Path(user_models.__file__)
PRODUCT = 2 * 4 * 8 * 16
"""FLOPs of one matrix product of a small block: 4 rows, 8 by 16."""


def record_of(factory: str, **options: Any) -> dict[str, Any]:
    record: dict[str, Any] = extract(f"{MODELS}:{factory}", **options)["workload"]
    return record


def workload_of(factory: str, *, micro_batch: int | None = None, **options: Any) -> Workload:
    record = record_of(factory, **options)
    return extracted(record, Use(micro_batch or record["batch"], 1, 2, "none"))


def counted_by_torch(build: Callable[[], nn.Module], *, batch: int, seq: int) -> tuple[int, int]:
    """FLOPs of forward and backward on the meta device, where attention takes the math path."""
    with torch.device("meta"):
        model, ids = build(), torch.empty(batch, seq, dtype=torch.long)
    with FlopCounterMode(display=False) as counter:
        scores = model(ids)
        forward = counter.get_total_flops()
        torch.autograd.backward([scores], [torch.ones_like(scores)])
    return forward, counter.get_total_flops() - forward


@pytest.mark.parametrize("factory", ["small_gpt", "small_llama"])
def test_flops_are_those_of_torchs_own_counter(factory: str) -> None:
    build: Callable[[], nn.Module] = getattr(user_models, factory)
    workload = workload_of(factory, batch=2, seq=32)
    forward = sum(layer.forward_flops for layer in workload.layers)
    backward = sum(layer.backward_flops for layer in workload.layers)
    assert (forward, backward) == counted_by_torch(build, batch=2, seq=32)


def test_gpt2_xl_has_its_parameters_and_its_flops() -> None:
    answer = extract("zerosim_runtime.examples_models:gpt2_xl")
    workload = extracted(answer["workload"], Use(1, 1, 2, "none"))
    assert workload.n_params == answer["n_params"] == 1_557_611_200
    assert answer["tied_tensors"] == 1
    assert [len(unit.parameters) for unit in workload.units] == [4, *[12] * 48]
    forward, backward = counted_by_torch(gpt2_xl, batch=1, seq=1024)
    assert workload.model_flops() == forward + backward == 10_520_110_694_400


def test_kernels_of_a_gpt_block_are_those_of_the_preset() -> None:
    block = workload_of("small_gpt", batch=2, seq=32).layers[1]
    assert block.forward_work is not None
    assert block.backward_work is not None
    # norm, qkv, attention, out, residual, norm, up, GELU, down, residual.
    assert block.forward_work.kernels == 10
    assert block.forward_work.attention_flops == 4 * 2 * 32 * 32 * 64
    # The preset's 23, but autograd calls a norm's two kernels as one op.
    assert block.backward_work.kernels == 21


def test_units_are_the_root_and_its_repeated_blocks_in_order_of_use() -> None:
    workload = workload_of("small_gpt", seq=32)
    assert [unit.name for unit in workload.units] == ["root", "0", "1", "2"]
    assert [layer.name for layer in workload.layers] == ["emb", "0", "1", "2", "head"]
    assert [layer.unit for layer in workload.layers] == [0, 1, 2, 3, 0]


def test_modules_stand_in_forward_order_and_their_flops_add_up_to_the_layers() -> None:
    _, block, *_, head = workload_of("small_gpt", seq=32).layers
    names = ["norm1", "qkv", "out", "norm2", "up", "down"]
    assert [module.name for module in block.modules] == names
    assert [module.parameters for module in block.modules] == [(i, i + 1) for i in range(0, 12, 2)]
    assert sum(module.forward_flops for module in block.modules) == block.forward_flops
    assert sum(module.backward_flops for module in block.modules) == block.backward_flops
    # The head's matrix is the embedding's: the second of the root's parameters.
    assert [(m.name, m.parameters) for m in head.modules] == [("norm", (2, 3)), ("head", (1,))]


def test_what_a_block_keeps_is_what_autograd_saves_with_a_fused_attention() -> None:
    block = workload_of("small_gpt", batch=2, seq=32).layers[1]
    width = 2 * 32 * 64
    statistics = 2 * 2 * 2 * 32  # mean and deviation of two norms, a float of a row each
    scores = 2 * 4 * 32  # log-sum-exp of attention, a float32 of a row and head
    # in, norm1, q k v, mixed, between, norm2, up and its GELU of 4 widths each
    floats = 16 * width + statistics
    assert block.activations == floats + scores * 4 // 2


def test_attention_that_drops_out_keeps_no_scores_and_grows_in_a_line() -> None:
    record = record_of("attention_that_drops_out")
    assert record["scales"]
    (layer,) = extracted(record, Use(3, 1, 2, "none")).layers
    width, rows = 3 * 64 * 16, 3 * 2 * 64
    # Queries, keys and values are one tensor, then what is mixed, and a float32 for each row of scores.
    assert layer.activations == width + width + rows * 4 // 2


def test_attention_inside_torchs_own_layers_is_counted_and_keeps_no_scores() -> None:
    first, second = workload_of("encoder").layers
    rows = 2 * 32
    matrices = 3 * 64 * 64 + 64 * 64 + 2 * 64 * 128
    attention = 2 * 2 * rows * 32 * 64
    assert first.forward_flops == second.forward_flops == 2 * rows * matrices + attention
    assert second.backward_flops == 2 * second.forward_flops
    scores = rows * 4 * 32
    without = 20 * rows * 64  # a few widths, and masks of dropout
    assert second.activations < without < without + scores


def test_a_larger_batch_scales_in_a_line() -> None:
    record = record_of("small_llama", seq=32)
    assert record["scales"]
    three = extracted(record, Use(3, 1, 2, "none"))
    assert three == extracted(record_of("small_llama", batch=3, seq=32), Use(3, 1, 2, "none"))


def test_a_batch_that_the_model_fixes_is_the_only_one() -> None:
    record = record_of("fixed_batch")
    assert (record["batch"], record["scales"]) == (4, False)
    with pytest.raises(InputError, match="extract it with --batch 8"):
        extracted(record, Use(8, 1, 2, "none"))


def test_causal_leaves_out_half_of_attention() -> None:
    full, causal = (workload_of("small_gpt", seq=32, causal=c) for c in (False, True))
    scores = 2 * 2 * 32 * 32 * 64  # two products of seq² · hidden, two FLOPs each
    assert full.layers[1].forward_flops - causal.layers[1].forward_flops == scores // 2
    assert full.layers[1].backward_flops - causal.layers[1].backward_flops == scores
    assert full.counted_flops == causal.counted_flops
    assert full.model_flops() - full.model_flops(causal=True) == 3 * 3 * scores // 2


def test_blocks_that_are_no_list_are_found_by_their_class() -> None:
    assert [unit.name for unit in workload_of("stack").units] == ["first", "second"]


def test_wrap_names_the_classes() -> None:
    workload = workload_of("small_gpt", seq=32, wrap=("Linear",))
    assert [unit.name for unit in workload.units[:3]] == ["root", "0.qkv", "0.out"]
    order = [layer.name for layer in workload.layers[:5]]
    assert order == ["emb", "0.qkv", "0.out", "root", "0.up"]


def test_a_block_called_twice_is_one_unit_of_two_layers() -> None:
    workload = workload_of("stack_called_twice")
    assert [layer.name for layer in workload.layers] == ["first", "second", "first.2"]
    assert [layer.unit for layer in workload.layers] == [0, 1, 0]


def test_plain_layers_of_a_list_are_units_where_there_are_no_blocks() -> None:
    workload = workload_of("plain_sequence")
    assert [unit.name for unit in workload.units] == ["0", "2"]


def test_a_module_without_repeated_blocks_is_one_unit() -> None:
    workload = workload_of("images")
    (layer,) = workload.layers
    assert [module.name for module in layer.modules] == ["stem", "norm", "head"]
    convolution = 2 * (2 * 4 * 16 * 16) * (3 * 3 * 3)
    assert layer.modules[0].forward_flops == convolution
    assert layer.modules[2].forward_flops == 2 * 2 * 4 * 10


def test_frozen_parameters_are_known_and_not_scheduled() -> None:
    answer = extract(f"{MODELS}:frozen_start")
    own = (8 * 16 + 16) + (16 * 8 + 8)
    assert (answer["n_params"], answer["trainable_params"]) == (2 * own, own)
    first, second = answer["workload"]["layers"]
    assert first["backward_flops"] == 0
    assert second["backward_flops"] == 2 * second["forward_flops"] - PRODUCT
    with pytest.raises(InputError, match=r"parameter 'up.weight' is frozen"):
        extracted(answer["workload"], Use(4, 1, 2, "none"))


def test_unused_parameters_are_named() -> None:
    units = record_of("with_unused")["units"]
    assert [p["name"] for unit in units for p in unit["parameters"] if p.get("unused")] == [
        "spare.weight",
        "spare.bias",
    ]


def test_a_loss_that_the_model_computes_has_no_scores() -> None:
    assert [layer.logits for layer in workload_of("with_loss").layers] == [0, 0]
    assert [layer.logits for layer in workload_of("stack").layers] == [0, 4 * 8]


def test_a_checkpoint_of_the_models_own_is_counted_as_backward() -> None:
    first, second = workload_of("checkpointed").layers
    # Its input needs no gradient, and only its first product must be there again.
    assert first.backward_flops == second.backward_flops - PRODUCT + PRODUCT
    assert first.activations == 0


def test_full_checkpointing_keeps_a_blocks_input_alone() -> None:
    record = record_of("small_gpt", seq=32)
    plain, full = (extracted(record, Use(1, 1, 2, how)).layers for how in ("none", "full"))
    assert full[1].activations == 32 * 64
    assert full[1].activations + full[1].recomputed == plain[1].activations
    assert full[1].recompute_flops == plain[1].forward_flops
    assert full[0].recompute_flops == 0


@pytest.mark.parametrize(
    ("target", "sentence"),
    [
        ("x", "'x' names no factory: write MODULE:FACTORY"),
        ("no_such_module:f", "no module 'no_such_module'"),
        ("no/file.py:f", "^no file 'no/file.py'"),
        ("{}:small_gtp", "no factory in '.*': did you mean 'small_gpt'?"),
        ("{}:NOT_CALLABLE", "is a int: name a function that returns an nn.Module"),
        ("{}:returns_text", "returned str: return an nn.Module, or"),
        ("{}:is_lazy", "has lazy parameters, whose shapes nobody knows yet"),
        ("{}:has_no_parameters", "has 0 parameters"),
        ("{}:raises", r"failed \(ValueError: no such width really, user_models.py line \d+\)"),
        ("{}:leaves", r"failed \(SystemExit: 3, user_models.py line \d+\)"),
        ("{}:chooses_by_values", "Chooses does not run with its example inputs and without val"),
        ("{}:no_gradient", "the forward returned a .*Tensor without a gradient"),
        ("{}:wants_floats", r"Stack does not run with token ids \[batch, seq\]"),
    ],
)
def test_what_cannot_be_extracted_is_one_sentence(target: str, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence) as caught:
        extract(target.format(MODELS))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"dtype": "int8"}, "no dtype 'int8'"),
        ({"batch": 0}, "--batch is 0: give at least 1"),
        ({"wrap": ("Blok",)}, "no module class 'Blok': did you mean 'GptBlock'|known: Embedding"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        extract(f"{MODELS}:small_gpt", seq=options.pop("seq", 32), **options)


def test_sizes_are_refused_where_the_factory_gives_inputs() -> None:
    with pytest.raises(InputError, match="--batch and --seq would do nothing"):
        extract(f"{MODELS}:stack", batch=2)


def test_the_default_dtype_stays_what_it_was() -> None:
    extract(f"{MODELS}:stack")
    assert torch.get_default_dtype() is torch.float32
