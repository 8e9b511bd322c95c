"""Decoder transformers from their sizes: GPT (GELU, biases, LayerNorm) and Llama (SwiGLU, RMSNorm, GQA)."""

from __future__ import annotations

from dataclasses import dataclass

from zerosim.errors import ScenarioError
from zerosim.workload import Layer, Parameter, Unit, Workload


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes of a transformer and its micro-batch. `llama` picks SwiGLU, RMSNorm and no biases."""

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    ffn: int
    vocab: int
    seq: int
    micro_batch: int
    micro_batches: int
    llama: bool
    tied: bool

    def __post_init__(self) -> None:
        """Refuse heads that do not divide the hidden size, or each other."""
        if self.hidden % self.heads:
            raise ScenarioError(
                f"workload.heads is {self.heads}, hidden is {self.hidden}: heads must divide hidden"
            )
        if self.heads % self.kv_heads:
            raise ScenarioError(
                f"workload.kv_heads is {self.kv_heads}, heads is {self.heads}: it must divide heads"
            )

    @property
    def tokens(self) -> int:
        """Tokens of a micro-batch on one rank."""
        return self.micro_batch * self.seq

    @property
    def kv(self) -> int:
        """Width of keys (and of values)."""
        return self.hidden // self.heads * self.kv_heads


def transformer(sizes: Sizes) -> Workload:
    """Units: `root` (embeddings, last norm, head), then one a block; `root` is gathered first.

    Forward FLOPs of a block are 2·tokens·(its matrices) + 2·tokens·seq·hidden for causal attention;
    a backward is twice the forward (Megatron-LM's count). The head adds 2·tokens·hidden·vocab.
    """
    block = _llama_block(sizes) if sizes.llama else _gpt_block(sizes)
    matrices = sum(p.numel for p in block if len(p.shape) > 1)
    flops = 2 * sizes.tokens * matrices + 2 * sizes.tokens * sizes.seq * sizes.hidden
    kept = _kept(sizes)
    head_flops = 2 * sizes.tokens * sizes.hidden * sizes.vocab
    width = sizes.tokens * sizes.hidden
    scores = sizes.tokens * sizes.vocab
    embed = Layer("emb", 0, 0, 0, width, forward_elements=2 * width, backward_elements=2 * width)
    head = Layer(
        "head",
        0,
        head_flops,
        2 * head_flops,
        activations=2 * width,
        logits=scores,
        forward_elements=2 * scores,
        backward_elements=2 * scores,
    )
    blocks = tuple(
        Layer(
            str(i),
            i + 1,
            flops,
            2 * flops,
            activations=kept,
            forward_elements=2 * kept,
            backward_elements=4 * kept,
        )
        for i in range(sizes.layers)
    )
    return Workload(
        name="llama" if sizes.llama else "gpt",
        units=(Unit("root", _root(sizes)), *(Unit(str(i), block) for i in range(sizes.layers))),
        layers=(embed, *blocks, head),
        tokens=sizes.tokens,
        micro_batches=sizes.micro_batches,
        attention=(sizes.layers, sizes.hidden, sizes.seq),
    )


def _kept(sizes: Sizes) -> int:
    """Elements a block keeps for its backward, with an attention that does not store its scores.

    GPT: 34 bytes a token and hidden (Korthikanti et al., arXiv 2205.05198 §4.1, without 5as/h), that
    is 17 elements of 2 bytes. Llama: 6 + 2·kv/heads widths, and 3 of the feed-forward width.
    """
    if not sizes.llama:
        return 17 * sizes.tokens * sizes.hidden
    return sizes.tokens * (6 * sizes.hidden + 2 * sizes.kv + 3 * sizes.ffn)


def _root(sizes: Sizes) -> tuple[Parameter, ...]:
    table = Parameter("embedding.weight", (sizes.vocab, sizes.hidden))
    head = () if sizes.tied else (Parameter("head.weight", (sizes.vocab, sizes.hidden)),)
    if sizes.llama:
        return (table, Parameter("norm.weight", (sizes.hidden,)), *head)
    return (
        table,
        Parameter("position.weight", (sizes.seq, sizes.hidden)),
        *_norm("norm", sizes.hidden),
        *head,
    )


def _gpt_block(sizes: Sizes) -> tuple[Parameter, ...]:
    h, kv, f = sizes.hidden, sizes.kv, sizes.ffn
    return (
        *_norm("norm1", h),
        *_linear("attention.qkv", h, h + 2 * kv),
        *_linear("attention.out", h, h),
        *_norm("norm2", h),
        *_linear("mlp.up", h, f),
        *_linear("mlp.down", f, h),
    )


def _llama_block(sizes: Sizes) -> tuple[Parameter, ...]:
    h, kv, f = sizes.hidden, sizes.kv, sizes.ffn
    return (
        Parameter("norm1.weight", (h,)),
        Parameter("attention.qkv.weight", (h + 2 * kv, h)),
        Parameter("attention.out.weight", (h, h)),
        Parameter("norm2.weight", (h,)),
        Parameter("mlp.gate.weight", (f, h)),
        Parameter("mlp.up.weight", (f, h)),
        Parameter("mlp.down.weight", (h, f)),
    )


def _linear(name: str, inputs: int, outputs: int) -> tuple[Parameter, Parameter]:
    return Parameter(f"{name}.weight", (outputs, inputs)), Parameter(f"{name}.bias", (outputs,))


def _norm(name: str, hidden: int) -> tuple[Parameter, Parameter]:
    return Parameter(f"{name}.weight", (hidden,)), Parameter(f"{name}.bias", (hidden,))
