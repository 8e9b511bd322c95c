"""Decoder transformers from their sizes: GPT (GELU, biases, LayerNorm) and Llama (SwiGLU, RMSNorm, GQA)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from zerosim.errors import ScenarioError
from zerosim.workload import Layer, Module, Parameter, Unit, Workload


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes of a transformer and its micro-batch. `llama` picks SwiGLU, RMSNorm and no biases.

    `checkpointed_layers`: `checkpointing` is of so many of the first blocks, None: of all.

    `qkv_bias`: queries, keys and values of a llama have one nevertheless (Qwen2).
    """

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
    attention: str = "flash"
    checkpointing: str = "none"
    qkv_bias: bool = False
    checkpointed_layers: int | None = None

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

    @property
    def attention_flops(self) -> int:
        """Forward FLOPs of a block's causal attention, without its matrices."""
        return 2 * self.tokens * self.seq * self.hidden

    @property
    def scores(self) -> int:
        """Elements an eager attention keeps: 5·a·s²·b bytes in 16 bits (arXiv 2205.05198 §4.1)."""
        return 5 * self.heads * self.seq * self.tokens // 2 if self.attention == "eager" else 0


def transformer(sizes: Sizes) -> Workload:
    """Units: `root` (embeddings, last norm, head), then one a block; `root` is gathered first.

    Forward FLOPs of a block are 2·tokens·(its matrices) + 2·tokens·seq·hidden for causal attention;
    a backward is twice the forward (Megatron-LM's count). The head adds 2·tokens·hidden·vocab.
    """
    block = _llama_block(sizes) if sizes.llama else _gpt_block(sizes)
    root = _root(sizes)
    return Workload(
        name="llama" if sizes.llama else "gpt",
        units=(Unit("root", root), *(Unit(str(i), block) for i in range(sizes.layers))),
        layers=(_embed(sizes, root), *_every_block(sizes, block), _head(sizes, root)),
        tokens=sizes.tokens,
        micro_batches=sizes.micro_batches,
        attention=(sizes.layers, sizes.hidden, sizes.seq),
    )


def _embed(sizes: Sizes, root: tuple[Parameter, ...]) -> Layer:
    width = sizes.tokens * sizes.hidden
    return Layer(
        "emb",
        0,
        0,
        0,
        width,
        forward_elements=2 * width,
        backward_elements=2 * width,
        modules=_modules(root, ("embedding", "position"), 0, {}),
    )


def _head(sizes: Sizes, root: tuple[Parameter, ...]) -> Layer:
    scores = sizes.tokens * sizes.vocab
    flops = 2 * sizes.hidden * scores
    last = "embedding" if sizes.tied else "head"
    return Layer(
        "head",
        0,
        flops,
        2 * flops,
        activations=2 * sizes.tokens * sizes.hidden,
        logits=scores,
        forward_elements=2 * scores,
        backward_elements=2 * scores,
        modules=_modules(root, ("norm", last), 0, {last: flops}),
    )


def _every_block(sizes: Sizes, block: tuple[Parameter, ...]) -> tuple[Layer, ...]:
    some = sizes.checkpointed_layers
    if some is None:
        return _blocks(sizes, block)
    kept = replace(sizes, checkpointing="none", checkpointed_layers=None)
    return (*_blocks(sizes, block)[:some], *_blocks(kept, block)[some:])


def _blocks(sizes: Sizes, block: tuple[Parameter, ...]) -> tuple[Layer, ...]:
    matrices = sum(p.numel for p in block if len(p.shape) > 1)
    flops = 2 * sizes.tokens * matrices + sizes.attention_flops
    kept = _kept(sizes) + sizes.scores
    names = tuple(dict.fromkeys(p.name.rpartition(".")[0] for p in block))
    # An engine that gathers module by module attends between qkv and out.
    modules = _modules(block, names, 2 * sizes.tokens, {"attention.qkv": sizes.attention_flops})
    remembered, again, recomputed = {
        "none": (kept, 0, 0),
        "selective": (
            kept - sizes.scores,
            sizes.attention_flops if sizes.scores else 0,
            sizes.scores,
        ),
        "ops": _by_op(sizes, kept, flops),
        "full": (
            sizes.tokens * sizes.hidden,
            flops,
            kept - sizes.tokens * sizes.hidden,
        ),
    }[sizes.checkpointing]
    return tuple(
        Layer(
            str(i),
            i + 1,
            flops,
            2 * flops,
            activations=remembered,
            forward_elements=2 * kept,
            backward_elements=4 * kept,
            recompute_flops=again,
            recomputed=recomputed,
            modules=modules,
        )
        for i in range(sizes.layers)
    )


def _modules(
    unit: tuple[Parameter, ...],
    names: tuple[str, ...],
    flops_per_weight: int,
    extra_flops: dict[str, int],
) -> tuple[Module, ...]:
    """The modules `names` of a unit; each matrix takes so many FLOPs an element, some take more."""
    found = []
    for name in names:
        own = tuple(i for i, p in enumerate(unit) if p.name.rpartition(".")[0] == name)
        weights = sum(unit[i].numel for i in own if len(unit[i].shape) > 1)
        flops = flops_per_weight * weights + extra_flops.get(name, 0)
        if own:
            found.append(Module(name, own, flops, 2 * flops))
    return tuple(found)


def _by_op(sizes: Sizes, kept: int, flops: int) -> tuple[int, int, int]:
    """What a block keeps, the FLOPs and the elements it computes again, by torchtitan's per-op policy.

    It keeps the input, what attention gives, and what every second matrix product gives; a Llama's
    queries, keys and values are three products (pytorch/torchtitan, activation_checkpoint: op).
    """
    h, kv, ffn = sizes.hidden, sizes.kv, sizes.ffn
    products, spare = [(h, h + 2 * kv), (h, ffn)], 0
    if sizes.llama:
        # q, v, gate and down; nobody needs what down gives, and rotation makes other queries.
        products, spare = [(h, h), (h, kv), (h, ffn), (ffn, h)], 2 * h
    saved = sum(outputs for _, outputs in products)
    done = sum(2 * sizes.tokens * inputs * outputs for inputs, outputs in products)
    remembered = sizes.tokens * (2 * h + saved)
    return (
        remembered,
        flops - done - sizes.attention_flops,
        max(0, kept - remembered + sizes.tokens * spare),
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
        *((Parameter("attention.qkv.bias", (h + 2 * kv,)),) if sizes.qkv_bias else ()),
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
