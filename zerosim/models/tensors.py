"""The parameters of a transformer, tensor by tensor, in the order in which its modules define them."""

from __future__ import annotations

from zerosim.models.sizes import Sizes
from zerosim.workload import Parameter


def root_of(sizes: Sizes) -> tuple[Parameter, ...]:
    """What is no block's: the embeddings, the last norm, the head unless it is tied."""
    table = Parameter("embedding.weight", (sizes.vocab, sizes.hidden))
    head = () if sizes.tied else (Parameter("head.weight", (sizes.vocab, sizes.hidden)),)
    if sizes.llama:
        return (table, Parameter("norm.weight", (sizes.hidden,)), *head)
    return (
        table,
        Parameter("position.weight", (sizes.seq, sizes.hidden)),
        *_norm("norm", sizes.hidden, bias=sizes.bias),
        *head,
    )


def gpt_block(sizes: Sizes) -> tuple[Parameter, ...]:
    """A GPT's block: LayerNorm, attention, LayerNorm, GELU; biases unless `sizes` has none."""
    h, kv, f, bias = sizes.hidden, sizes.kv, sizes.ffn, sizes.bias
    return (
        *_norm("norm1", h, bias=bias),
        *_linear("attention.qkv", h, h + 2 * kv, bias=bias),
        *_linear("attention.out", h, h, bias=bias),
        *_norm("norm2", h, bias=bias),
        *_linear("mlp.up", h, f, bias=bias),
        *_linear("mlp.down", f, h, bias=bias),
    )


def llama_block(sizes: Sizes) -> tuple[Parameter, ...]:
    """A Llama's block: RMSNorm, attention, RMSNorm, SwiGLU."""
    h, kv, f = sizes.hidden, sizes.kv, sizes.ffn
    return (
        Parameter("norm1.weight", (h,)),
        Parameter("attention.qkv.weight", (h + 2 * kv, h)),
        *((Parameter("attention.qkv.bias", (h + 2 * kv,)),) if sizes.qkv_bias else ()),
        Parameter("attention.out.weight", (h, h)),
        Parameter("norm2.weight", (h,)),
        Parameter("mlp.gate.weight", (f, h)),
        Parameter("mlp.up.weight", (f, h)),
        Parameter("mlp.down.weight", (h, f)),
    )


def _linear(name: str, inputs: int, outputs: int, *, bias: bool) -> tuple[Parameter, ...]:
    weight = Parameter(f"{name}.weight", (outputs, inputs))
    return (weight, Parameter(f"{name}.bias", (outputs,))) if bias else (weight,)


def _norm(name: str, hidden: int, *, bias: bool) -> tuple[Parameter, ...]:
    weight = Parameter(f"{name}.weight", (hidden,))
    return (weight, Parameter(f"{name}.bias", (hidden,))) if bias else (weight,)
