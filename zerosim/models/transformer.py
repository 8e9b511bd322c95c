"""Decoder transformers from their sizes: GPT (GELU, biases, LayerNorm) and Llama (SwiGLU, RMSNorm, GQA)."""

from __future__ import annotations

from dataclasses import replace

from zerosim.models import workspace
from zerosim.models.kernels import (
    LAST,
    Attention,
    Kernels,
    Product,
    Step,
    attention_steps,
    gpt_steps,
    llama_steps,
    norm,
)
from zerosim.models.sizes import Sizes
from zerosim.models.tensors import gpt_block, llama_block, root_of
from zerosim.workload import Layer, Module, Parameter, Unit, Workload


def transformer(sizes: Sizes) -> Workload:
    """Units: `root` (embeddings, last norm, head), then one a block; `root` is gathered first.

    Forward FLOPs of a block are 2·tokens·(its matrices) + 2·tokens·seq·hidden for causal attention;
    a backward is twice the forward (Megatron-LM's count). The head adds 2·tokens·hidden·vocab.
    """
    block = llama_block(sizes) if sizes.llama else gpt_block(sizes)
    root = root_of(sizes)
    return Workload(
        name="llama" if sizes.llama else "gpt",
        units=(Unit("root", root), *(Unit(str(i), block) for i in range(sizes.layers))),
        layers=(_embed(sizes, root), *_every_block(sizes, block), _head(sizes, root)),
        tokens=sizes.tokens,
        micro_batches=sizes.micro_batches,
        attention=(sizes.layers, sizes.hidden, sizes.seq),
    )


def _embed(sizes: Sizes, root: tuple[Parameter, ...]) -> Layer:
    """Look-ups of tokens (and positions, which are added).

    The backward clears the table's gradient, sorts the tokens and adds up their gradients.
    """
    h = sizes.hidden
    steps = [Step("embedding", "embedding", (1, 2 * h), (3, 2 * h))]
    if not sizes.llama:
        steps.append(Step("position", "position", (2, 2 * h), (2, h)))
    cleared = Step("clear", "embedding", backward=(1, sizes.vocab * h))
    kernels = Kernels(sizes.tokens, sizes.width, tuple(steps), once=(cleared,))
    forward, backward = kernels.forward(), kernels.backward()
    return Layer(
        "emb",
        0,
        0,
        0,
        sizes.tokens * h,
        forward_elements=forward.elements,
        backward_elements=backward.elements,
        forward_workspace=workspace.of_embedding(sizes).forward,
        modules=_modules(root, ("embedding", "position"), 0, {}, kernels),
        forward_work=forward.work,
        backward_work=backward.work,
    )


def _head(sizes: Sizes, root: tuple[Parameter, ...]) -> Layer:
    scores = sizes.tokens * sizes.vocab
    flops = 2 * sizes.hidden * scores
    last = "embedding" if sizes.tied else "head"
    # The gradient of a table that is used twice is added up.
    shared = Step("shared", last, backward=(1, 3 * sizes.vocab * sizes.hidden))
    kernels = Kernels(
        sizes.tokens,
        sizes.width,
        (norm("norm", sizes.hidden),),
        (Product(last, sizes.hidden, sizes.vocab),),
        once=(shared,) if sizes.tied else (),
    )
    forward, backward = kernels.forward(), kernels.backward()
    return Layer(
        "head",
        0,
        flops,
        2 * flops,
        activations=2 * sizes.tokens * sizes.hidden,
        logits=scores,
        forward_elements=forward.elements,
        backward_elements=backward.elements,
        backward_workspace=workspace.of_head(sizes).backward,
        modules=_modules(root, ("norm", last), 0, {last: flops}, kernels),
        forward_work=forward.work,
        backward_work=backward.work,
        loss=sizes.loss or ("fused" if sizes.compiled else "eager"),
    )


def _block_kernels(sizes: Sizes, block: tuple[Parameter, ...]) -> Kernels:
    h, kv, f, fused = sizes.hidden, sizes.kv, sizes.ffn, sizes.attention != "eager"
    scores = sizes.heads * sizes.seq
    attention = attention_steps("attention.qkv", h, kv, scores, fused=fused)
    steps = (llama_steps if sizes.llama else gpt_steps)(
        h, kv, f, attention, compiled=sizes.compiled
    )
    biases = {p.name.removesuffix(".bias") for p in block if p.name.endswith(".bias")}
    linears = ((p.name.removesuffix(".weight"), p.shape) for p in block if len(p.shape) > 1)
    return Kernels(
        sizes.tokens,
        sizes.width,
        tuple(steps),
        tuple(Product(name, shape[1], shape[0], name in biases) for name, shape in linears),
        Attention(
            "attention.qkv",
            sizes.attention_flops,
            fused,
            sizes.seq,
            h // sizes.heads,
            sizes.micro_batch * sizes.heads,
        ),
        flash=sizes.attention if fused else "flash",
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
    kernels = _block_kernels(sizes, block)
    forward, backward = kernels.forward(), kernels.backward()
    names = tuple(dict.fromkeys(p.name.rpartition(".")[0] for p in block))
    # An engine that gathers module by module attends between qkv and out.
    extra = {"attention.qkv": sizes.attention_flops}
    modules = _modules(block, names, 2 * sizes.tokens, extra, kernels)
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
            flops - (2 * sizes.tokens * sizes.hidden * sizes.ffn if sizes.early_stop else 0),
            kept - sizes.tokens * sizes.hidden,
        ),
    }[sizes.checkpointing]
    recompute = {
        "full": kernels.forward_before(LAST) if sizes.early_stop else forward,
        "selective": kernels.scores_again(),
        "ops": kernels.again_by_op(_spared(sizes)[1]),
    }.get(sizes.checkpointing, forward)
    scratch = workspace.of_block(sizes, block)
    return tuple(
        Layer(
            str(i),
            i + 1,
            flops,
            2 * flops,
            activations=remembered,
            forward_elements=forward.elements,
            backward_elements=backward.elements,
            recompute_flops=again,
            recomputed=recomputed,
            forward_workspace=scratch.forward,
            recompute_workspace=scratch.again,
            backward_workspace=scratch.backward,
            modules=modules,
            forward_work=forward.work,
            recompute_work=recompute.work if again else None,
            backward_work=backward.work,
            recompute_elements=recompute.elements if again else None,
        )
        for i in range(sizes.layers)
    )


def _modules(
    unit: tuple[Parameter, ...],
    names: tuple[str, ...],
    flops_per_weight: int,
    extra_flops: dict[str, int],
    kernels: Kernels,
) -> tuple[Module, ...]:
    """The modules `names` of a unit; each matrix takes so many FLOPs an element, some take more."""
    found = []
    for name in names:
        own = tuple(i for i, p in enumerate(unit) if p.name.rpartition(".")[0] == name)
        weights = sum(unit[i].numel for i in own if len(unit[i].shape) > 1)
        flops = flops_per_weight * weights + extra_flops.get(name, 0)
        if own:
            forward, backward = kernels.forward(name), kernels.backward(name)
            found.append(Module(name, own, flops, 2 * flops, forward, backward))
    return tuple(found)


def _by_op(sizes: Sizes, kept: int, flops: int) -> tuple[int, int, int]:
    """What a block keeps, the FLOPs and the elements it computes again, by torchtitan's per-op policy.

    It keeps the input, what attention gives, and what every second matrix product gives; a Llama's
    queries, keys and values are three products (pytorch/torchtitan, activation_checkpoint: op).
    """
    # Nobody needs what a Llama's down gives, and rotation makes other queries.
    spare = 2 * sizes.hidden if sizes.llama else 0
    products, _ = _spared(sizes)
    saved = sum(p.outputs for p in products)
    done = sum(2 * sizes.tokens * p.inputs * p.outputs for p in products)
    remembered = sizes.tokens * (2 * sizes.hidden + saved)
    return (
        remembered,
        flops - done - sizes.attention_flops,
        max(0, kept - remembered + sizes.tokens * spare),
    )


def _spared(sizes: Sizes) -> tuple[tuple[Product, ...], tuple[Product, ...]]:
    """The matrix products that torchtitan's per-op policy keeps, and those it computes again."""
    h, kv, f = sizes.hidden, sizes.kv, sizes.ffn
    out, up, down = (Product(*p) for p in (("out", h, h), ("up", h, f), ("down", f, h)))
    if not sizes.llama:
        return (Product("qkv", h, h + 2 * kv), up), (out, down)
    q, k, v = (Product(name, h, width) for name, width in (("q", h), ("k", kv), ("v", kv)))
    return (q, v, Product("gate", h, f), down), (k, out, up)


def _kept(sizes: Sizes) -> int:
    """Elements a block keeps for its backward, with an attention that does not store its scores.

    GPT: 34 bytes a token and hidden (Korthikanti et al., arXiv 2205.05198 §4.1, without 5as/h), that
    is 17 elements of 2 bytes, one of them the masks of two dropouts. Llama: 6 + 2·kv/heads widths, and
    4 of the feed-forward width, or 3 compiled, which computes SiLU again.
    """
    if not sizes.llama:
        return 17 * sizes.tokens * sizes.hidden
    fed = 3 if sizes.compiled else 4
    return sizes.tokens * (6 * sizes.hidden + 2 * sizes.kv + fed * sizes.ffn)
