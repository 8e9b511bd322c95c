"""Transformers: parameters as published, FLOPs as Megatron counts them."""

from __future__ import annotations

from typing import Any

import pytest

from zerosim.errors import ScenarioError
from zerosim.models import Sizes, transformer
from zerosim.scenario import load_scenario, workload_of

SMALL = {
    "layers": 2,
    "hidden": 8,
    "heads": 2,
    "kv_heads": 2,
    "ffn": 32,
    "vocab": 10,
    "seq": 4,
    "micro_batch": 3,
    "micro_batches": 1,
    "llama": False,
    "tied": True,
}


def sizes(**changes: Any) -> Sizes:
    return Sizes(**(SMALL | changes))


# Published sizes: GPT-2 1.5B, Llama 2 7B, 13B, 70B; Megatron's formula for the GPT models.
@pytest.mark.parametrize(
    ("preset", "n_params"),
    [
        ("gpt2-1.5b", 1_557_611_200),
        ("llama2-7b", 6_738_415_616),
        ("llama2-13b", 13_015_864_320),
        ("llama2-70b", 68_976_648_192),
        ("gpt-7.5b", 7_467_786_240),
        ("gpt-100b", 101_096_718_336),
        ("gpt-1t", 1_008_038_758_400),
    ],
)
def test_parameters_are_those_of_the_published_models(preset: str, n_params: int) -> None:
    assert workload_of(load_scenario(preset)).n_params == n_params


def test_a_gpt_block_has_12_h_squared_and_13_h_parameters() -> None:
    block = transformer(sizes()).units[1]
    assert block.numel == 12 * 8 * 8 + 13 * 8


def test_a_gpt_root_holds_embeddings_positions_and_the_last_norm() -> None:
    assert transformer(sizes()).units[0].numel == 10 * 8 + 4 * 8 + 2 * 8


def test_a_gpt_block_without_biases_has_12_h_squared_and_2_h_parameters() -> None:
    block = transformer(sizes(bias=False)).units[1]
    assert block.numel == 12 * 8 * 8 + 2 * 8


def test_an_untied_head_is_a_second_table() -> None:
    tied, untied = transformer(sizes()), transformer(sizes(tied=False))
    assert untied.n_params - tied.n_params == 10 * 8


def test_a_llama_block_has_three_matrices_and_grouped_keys() -> None:
    block = transformer(sizes(llama=True, kv_heads=1, ffn=20)).units[1]
    # Queries 8, keys and values 4 each; output 8; gate, up, down of 20; two norms.
    assert block.numel == (8 + 2 * 4) * 8 + 8 * 8 + 3 * 8 * 20 + 2 * 8


def test_the_root_is_used_by_the_embedding_and_by_the_head() -> None:
    workload = transformer(sizes())
    assert [layer.name for layer in workload.layers] == ["emb", "0", "1", "head"]
    assert workload.uses() == ((0, 3), (1,), (2,))


def test_a_block_computes_2_flops_a_weight_and_token_and_causal_attention() -> None:
    block = transformer(sizes()).layers[1]
    assert block.forward_flops == 2 * 12 * (12 * 8 * 8) + 2 * 12 * 4 * 8
    assert block.backward_flops == 2 * block.forward_flops


def test_the_head_computes_2_flops_a_weight_and_token_and_keeps_the_scores() -> None:
    head = transformer(sizes()).layers[-1]
    assert head.forward_flops == 2 * 12 * 8 * 10
    assert head.logits == 12 * 10


def test_a_gpt_block_keeps_34_bytes_a_token_and_width() -> None:
    assert transformer(sizes()).layers[1].activations * 2 == 34 * 12 * 8


def test_by_op_a_llama_block_keeps_its_input_attention_q_v_gate_and_down() -> None:
    block = transformer(sizes(llama=True, kv_heads=1, ffn=20, checkpointing="ops")).layers[1]
    # Widths: input 8, attention 8, q 8, v 4, gate 20, down 8. Again: k, out and up; then all that a
    # block keeps, without the input, attention, v and gate, is there beside the saved q and down.
    assert block.activations == 12 * (8 + 8 + 8 + 4 + 20 + 8)
    assert block.recompute_flops == 2 * 12 * (8 * 4 + 8 * 8 + 8 * 20)
    assert block.recomputed == 12 * (6 * 8 + 2 * 4 + 4 * 20) - 12 * (8 + 8 + 4 + 20)


def test_by_op_a_gpt_block_keeps_its_input_attention_qkv_and_up() -> None:
    block = transformer(sizes(checkpointing="ops")).layers[1]
    assert block.activations == 12 * (8 + 8 + 24 + 32)
    assert block.recompute_flops == 2 * 12 * (8 * 8 + 32 * 8)
    assert block.recomputed == 12 * 17 * 8 - block.activations


def test_a_llama_block_keeps_four_widths_of_its_feed_forward_and_three_compiled() -> None:
    eager = transformer(sizes(llama=True, kv_heads=1, ffn=20)).layers[1].activations
    compiled = transformer(sizes(llama=True, kv_heads=1, ffn=20, compiled=True)).layers[1]
    # Norms, residuals, q, attention: 6 of 8; k and v of 4; gate, SiLU, up and their product of 20.
    assert eager == 12 * (6 * 8 + 2 * 4 + 4 * 20)
    assert compiled.activations == 12 * (6 * 8 + 2 * 4 + 3 * 20)


def test_what_lives_only_while_a_llama_block_runs() -> None:
    block = transformer(sizes(llama=True, kv_heads=1, ffn=20, checkpointing="full")).layers[1]
    # q, attention, the sum and its norm of 8, k and v of 4, SiLU, up and their product of 20.
    assert block.forward_workspace == 12 * (4 * 8 + 2 * 4 + 3 * 20)
    assert block.recompute_workspace == 12 * 2 * 8
    # Gradients of SiLU, of up and of the residual; of all parameters' only down's is there.
    assert block.backward_workspace == 12 * (2 * 20 + 8) - (16 * 8 + 8 * 8 + 2 * 20 * 8 + 2 * 8)


def test_compiled_a_checkpointed_block_has_two_widths_at_once() -> None:
    words = {"llama": True, "kv_heads": 1, "ffn": 20, "checkpointing": "full", "compiled": True}
    assert transformer(sizes(**words)).layers[1].forward_workspace == 12 * (2 * 8 + 2 * 20)


def test_gpt2_does_0_33_petaflops_on_a_batch_of_32() -> None:
    # Check case H1: full attention 0.3366, causal 0.3212 (the head and 6 a parameter and token).
    workload = workload_of(load_scenario("gpt2-1.5b", ["micro_batch=32"]))
    assert workload.model_flops() / 1e15 == pytest.approx(0.3366, rel=0.01)
    assert workload.model_flops(causal=True) / 1e15 == pytest.approx(0.3212, rel=0.01)


def test_llama_7b_does_14_gigaflops_a_token_forward() -> None:
    # Check case H2: 14.29 GFLOP at a sequence of 4,096, attention causal.
    workload = workload_of(load_scenario("llama2-7b"))
    forward = sum(layer.forward_flops for layer in workload.layers)
    assert forward / workload.tokens / 1e9 == pytest.approx(14.29, abs=0.01)


def test_a_step_of_175b_does_4_5_exaflops_by_megatrons_formula() -> None:
    # Check case H3: 96·B·s·L·h²(1 + s/6h + V/16Lh), full recomputation, attention in full.
    big = {"layers": 96, "hidden": 12288, "heads": 96, "kv_heads": 96, "ffn": 4 * 12288}
    batch = {"vocab": 51200, "seq": 2048, "micro_batch": 1536, "checkpointing": "full"}
    *blocks, head = transformer(sizes(**big, **batch)).layers[1:]
    passes = sum(b.forward_flops + b.recompute_flops + b.backward_flops for b in blocks)
    # A causal half of attention more, in each of four passes.
    masked = 96 * 4 * 2 * 1536 * 2048 * 2048 * 12288
    total = passes + masked + head.forward_flops + head.backward_flops
    assert total / 1e18 == pytest.approx(4.511, abs=0.001)


def test_heads_must_divide_the_width() -> None:
    with pytest.raises(ScenarioError, match=r"workload\.heads is 3, hidden is 8"):
        sizes(heads=3)


def test_key_heads_must_divide_the_heads() -> None:
    with pytest.raises(ScenarioError, match=r"workload\.kv_heads is 4, heads is 2"):
        sizes(kv_heads=4)


def test_some_of_the_first_blocks_are_checkpointed() -> None:
    half = transformer(sizes(checkpointing="full", checkpointed_layers=1)).layers
    full = transformer(sizes(checkpointing="full")).layers
    none = transformer(sizes()).layers
    assert half == (*full[:2], *none[2:])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["checkpointed_layers=1"], "is 1 with checkpointing 'none'"),
        (["checkpointing=full", "checkpointed_layers=49"], "and 48 layers: give 1 to all"),
        (["checkpointing=full", "checkpointed_layers=0"], "is 0 with checkpointing 'full'"),
        (["workload.model=uniform", "checkpointed_layers=1"], "model 'uniform' has no blocks"),
    ],
)
def test_blocks_that_are_not_there_cannot_be_checkpointed(words: list[str], said: str) -> None:
    with pytest.raises(ScenarioError, match=said):
        load_scenario("gpt2-1.5b", words)
