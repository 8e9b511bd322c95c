"""The kernels of a block, each counted by hand."""

from __future__ import annotations

from typing import Any

from zerosim.models import Sizes, transformer
from zerosim.workload import Cost, Layer, Matmul, Work

# 3 sequences of 4 tokens: 12; width 8, feed-forward 32, 2 heads, 10 words.
SMALL = {
    "layers": 1,
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
CAUSAL = 2 * 12 * 4 * 8


def layer(index: int, **changes: Any) -> Layer:
    return transformer(Sizes(**(SMALL | changes))).layers[index]


def work_of(work: Work | None) -> Work:
    assert work is not None
    return work


def cost_of(cost: Cost | None) -> Cost:
    assert cost is not None
    return cost


def test_the_forward_of_a_gpt_block_is_4_products_and_6_more_kernels() -> None:
    work = work_of(layer(1).forward_work)
    assert work.matmuls == (
        Matmul(12, 8, 24, "TN"),
        Matmul(12, 8, 8, "TN"),
        Matmul(12, 8, 32, "TN"),
        Matmul(12, 32, 8, "TN"),
    )
    assert work.attention_flops == CAUSAL
    # norm, attention, residual, norm, gelu, residual.
    assert work.kernels == 4 + 6


def test_its_flops_are_those_of_the_model() -> None:
    block = layer(1)
    work = work_of(block.forward_work)
    assert sum(m.flops for m in work.matmuls) + work.attention_flops == block.forward_flops


def test_the_backward_of_a_gpt_block_has_two_products_for_each_and_5_halves_of_the_attention() -> (
    None
):
    block = layer(1)
    work = work_of(block.backward_work)
    assert work.matmuls[:2] == (Matmul(12, 24, 8, "NN"), Matmul(24, 12, 8, "NT"))
    assert len(work.matmuls) == 8
    assert work.attention_flops == 5 * CAUSAL // 2
    assert sum(m.flops for m in work.matmuls) + 2 * CAUSAL == block.backward_flops
    # Two norms of 2, join of q, k, v; attention 3; residual 2; gelu; 4 biases.
    assert work.kernels == 8 + 4 + 1 + 3 + 2 + 1 + 4


def test_a_gpt_block_reads_and_writes_22_widths_forward_and_60_backward() -> None:
    block = layer(1)
    # norm 2, attention 4, residual 3, norm 2, gelu 2·4, residual 3.
    assert block.forward_elements == 12 * 8 * (2 + 4 + 3 + 2 + 8 + 3)
    # norms 5 + 5, join 6, attention 13 + 4, residuals 3 + 3, gelu 3·4, biases 3 + 1 + 4 + 1.
    assert block.backward_elements == 12 * 8 * (10 + 6 + 17 + 6 + 12 + 9)


def test_a_llama_block_turns_queries_and_keys_and_gates() -> None:
    block = layer(1, llama=True, kv_heads=1)
    forward, backward = work_of(block.forward_work), work_of(block.backward_work)
    # norm, rotary 6, attention, residual, norm, silu, times, residual.
    assert forward.kernels == 5 + 13
    # norms 4, join, rotary 6, attention 3, residuals 2, join, silu, times 2; no bias.
    assert backward.kernels == 10 + 20
    # In elements a token: h 8, keys 4, f 32.
    assert block.forward_elements == 12 * (
        16 + 10 * (8 + 4) + (16 + 8) + 24 + 16 + 2 * 32 + 3 * 32 + 24
    )
    assert block.backward_elements == 12 * (
        2 * 40 + 2 * (8 + 8) + 10 * (8 + 4) + (13 * 8 + 4 * 4) + 2 * 24 + 24 + 3 * 32 + 6 * 32
    )


def test_eager_attention_multiplies_all_scores_head_by_head() -> None:
    work = work_of(layer(1, attention="eager").forward_work)
    assert work.attention_flops == 0
    assert work.matmuls[-2:] == (Matmul(4, 4, 4, "TN", 6), Matmul(4, 4, 4, "NN", 6))
    # What is masked is computed, too: twice the causal FLOPs.
    assert sum(m.flops for m in work.matmuls[-2:]) == 2 * CAUSAL


def test_eager_attention_scales_masks_and_normalizes_the_scores() -> None:
    eager, flash = layer(1, attention="eager"), layer(1)
    scores = 12 * 2 * 4
    assert eager.forward_elements == flash.forward_elements - 12 * 8 * 4 + 6 * scores
    assert eager.backward_elements == flash.backward_elements - 12 * 8 * 17 + 7 * scores


def test_full_checkpointing_computes_the_forward_again() -> None:
    block = layer(1, checkpointing="full")
    assert block.recompute_work == block.forward_work
    assert block.recompute_elements == block.forward_elements


def test_selective_checkpointing_computes_the_scores_again() -> None:
    block = layer(1, checkpointing="selective", attention="eager")
    work = work_of(block.recompute_work)
    assert (len(work.matmuls), work.kernels) == (2, 2 + 3)
    assert block.recompute_elements == 6 * 12 * 2 * 4


def test_a_checkpoint_that_stops_early_spares_the_last_product_and_its_residual() -> None:
    gpt = layer(1, checkpointing="full", early_stop=True)
    work = work_of(gpt.recompute_work)
    assert work.matmuls == (Matmul(12, 8, 24), Matmul(12, 8, 8), Matmul(12, 8, 32))
    assert work.kernels == 3 + 5
    assert gpt.recompute_flops == gpt.forward_flops - 2 * 12 * 8 * 32
    assert gpt.recompute_elements == gpt.forward_elements - 12 * 3 * 8


def test_a_gpt_without_biases_sums_no_gradients_of_them() -> None:
    with_them, without = layer(1), layer(1, bias=False)
    assert with_them.backward_elements - without.backward_elements == 12 * 8 * 9
    assert work_of(with_them.backward_work).kernels - work_of(without.backward_work).kernels == 4


def test_checkpointing_by_op_computes_every_second_product_and_all_but_attention_again() -> None:
    gpt = layer(1, checkpointing="ops")
    assert work_of(gpt.recompute_work).matmuls == (Matmul(12, 8, 8), Matmul(12, 32, 8))
    assert gpt.recompute_elements == gpt.forward_elements - 12 * 4 * 8
    llama = layer(1, checkpointing="ops", llama=True, kv_heads=1)
    work = work_of(llama.recompute_work)
    assert work.matmuls == (Matmul(12, 8, 4), Matmul(12, 8, 8), Matmul(12, 8, 32))
    assert sum(m.flops for m in work.matmuls) == llama.recompute_flops
    assert work.kernels == 3 + 12


def test_compiled_blocks_have_fewer_kernels_that_move_less() -> None:
    eager, compiled = layer(1, llama=True), layer(1, llama=True, compiled=True)
    # norm, rotary, attention, residual with norm, swiglu, residual.
    assert work_of(compiled.forward_work).kernels == 5 + 6
    # norms 4, join, rotary, attention 3, join, swiglu.
    assert work_of(compiled.backward_work).kernels == 10 + 11
    assert work_of(compiled.forward_work).matmuls == work_of(eager.forward_work).matmuls
    # norm 2, rotary 4, attention 4, residual and norm 4, swiglu 3·4, residual 3.
    assert compiled.forward_elements == 12 * 8 * 29
    # norms 6 + 6, join 6, rotary 4, attention 17, join 3, swiglu 6·4.
    assert compiled.backward_elements == 12 * 8 * 66


def test_modules_add_up_to_their_layer() -> None:
    for index in (0, 1, 2):
        whole = layer(index)
        forward = [cost_of(module.forward) for module in whole.modules]
        backward = [cost_of(module.backward) for module in whole.modules]
        assert sum(cost.elements for cost in forward) == whole.forward_elements
        assert sum(cost.elements for cost in backward) == whole.backward_elements
        works = [work_of(cost.work) for cost in backward]
        assert sum(work.kernels for work in works) == work_of(whole.backward_work).kernels
        assert sum(work.attention_flops for work in works) == (
            work_of(whole.backward_work).attention_flops
        )


def test_the_embedding_looks_up_and_clears_its_gradient() -> None:
    table = layer(0)
    # Tokens looked up, positions added; then their gradient, summed, and that of the table.
    assert table.forward_elements == 12 * (2 + 2) * 8
    assert table.backward_elements == 12 * (2 + 1) * 8 + 10 * 8


def test_a_tied_table_adds_up_two_gradients() -> None:
    tied, untied = layer(2), layer(2, tied=False)
    assert tied.backward_elements - untied.backward_elements == 3 * 10 * 8
    assert tied.forward_elements == untied.forward_elements == 2 * 12 * 8


def test_products_of_float32_move_4_bytes_an_element() -> None:
    assert work_of(layer(1, width=4).forward_work).width == 4
