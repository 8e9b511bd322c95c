"""Which kernels a transformer's layers run, and what each reads and writes beside the matrix products.

# Note [Kernels of a block]
Counted for PyTorch's own modules (2.13: nn.LayerNorm, nn.RMSNorm, nn.Linear, F.gelu, F.silu, F.embedding,
scaled_dot_product_attention on FlashAttention-2), without dropout. Elements a token; h is the hidden
width, k that of keys (and of values), f that of the feed-forward. Views (split, transpose) move nothing.
Elements of float32 in 16-bit training count twice. docs/compute.md has the table.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from zerosim.workload import Cost, Matmul, Work


@dataclass(frozen=True, slots=True)
class Step:
    """One operation beside the matrix products: (kernels, elements a token) of forward and backward.

    `module`: the nn.Module within which it runs.
    """

    name: str
    module: str
    forward: tuple[int, int] = (0, 0)
    backward: tuple[int, int] = (0, 0)


@dataclass(frozen=True, slots=True)
class Product:
    """A Linear: `inputs` to `outputs`. A bias is added by the product, its gradient is a sum of its own."""

    module: str
    inputs: int
    outputs: int
    bias: bool = False

    def forward(self, tokens: int) -> tuple[Matmul, ...]:
        """Its forward: [tokens, inputs] · [inputs, outputs]."""
        return (Matmul(tokens, self.inputs, self.outputs, "TN"),)

    def backward(self, tokens: int) -> tuple[Matmul, ...]:
        """The gradient of its input, and that of its weight."""
        return (
            Matmul(tokens, self.outputs, self.inputs, "NN"),
            Matmul(self.outputs, tokens, self.inputs, "NT"),
        )

    @property
    def step(self) -> Step:
        """The sum over tokens that is the gradient of its bias."""
        return Step("bias", self.module, backward=(1, self.outputs) if self.bias else (0, 0))


@dataclass(frozen=True, slots=True)
class Attention:
    """The attention of `module` over causal sequences: FLOPs of a forward, as one fused kernel or eager.

    A fused kernel skips what is masked, and its backward makes the scores again: 5 products against
    2. An eager one computes all of `rows` · `rows` scores of `count` heads of `width`.
    """

    module: str
    causal_flops: int
    fused: bool
    rows: int
    width: int
    count: int

    def forward(self) -> tuple[tuple[Matmul, ...], int]:
        """Matrix products and FLOPs of fused attention, of a forward."""
        if self.fused:
            return (), self.causal_flops
        return (self._to_scores("TN"), self._from_scores("NN")), 0

    def backward(self) -> tuple[tuple[Matmul, ...], int]:
        """Matrix products and FLOPs of fused attention, of a backward."""
        if self.fused:
            return (), 5 * self.causal_flops // 2
        from_scores = (self._from_scores("NT"), self._from_scores("NN"), self._from_scores("NT"))
        return (self._to_scores("TN"), *from_scores), 0

    def _to_scores(self, layout: str) -> Matmul:
        return Matmul(self.rows, self.width, self.rows, layout, self.count)

    def _from_scores(self, layout: str) -> Matmul:
        return Matmul(self.rows, self.rows, self.width, layout, self.count)


@dataclass(frozen=True, slots=True)
class Kernels:
    """All that a layer computes on `tokens` tokens of elements of `width` bytes.

    The elements of `once` are not a token's but all. `flash`: which kernel a fused attention is.
    """

    tokens: int
    width: int
    steps: tuple[Step, ...]
    products: tuple[Product, ...] = ()
    attention: Attention | None = None
    flash: str = "flash"
    once: tuple[Step, ...] = ()

    def forward(self, module: str | None = None) -> Cost:
        """The forward of a module, or of all of them."""
        matmuls = [m for p in _of(self.products, module) for m in p.forward(self.tokens)]
        attention = [a.forward() for a in _of(self._attention, module)]
        steps = [s.forward for s in self._steps(module)]
        return self._cost(matmuls, attention, steps, [s.forward for s in _of(self.once, module)])

    def backward(self, module: str | None = None) -> Cost:
        """The backward of a module, or of all of them."""
        matmuls = [m for p in _of(self.products, module) for m in p.backward(self.tokens)]
        attention = [a.backward() for a in _of(self._attention, module)]
        steps = [s.backward for s in self._steps(module)]
        return self._cost(matmuls, attention, steps, [s.backward for s in _of(self.once, module)])

    def forward_before(self, module: str) -> Cost:
        """The forward but for a module: what follows the last tensor that a backward needs."""
        return replace(
            self,
            steps=tuple(s for s in self.steps if s.module != module),
            products=tuple(p for p in self.products if p.module != module),
        ).forward()

    def scores_again(self) -> Cost:
        """What selective checkpointing computes again: an eager attention's forward."""
        scores = [s.forward for s in self.steps if s.name in SCORES]
        return self._cost([], [a.forward() for a in self._attention], scores, [])

    def again_by_op(self, products: tuple[Product, ...]) -> Cost:
        """What a policy that keeps what attention gives computes again: these products, all else."""
        steps = [s.forward for s in self.steps if s.name not in (ATTENTION, *SCORES)]
        return self._cost([m for p in products for m in p.forward(self.tokens)], [], steps, [])

    @property
    def _attention(self) -> tuple[Attention, ...]:
        return () if self.attention is None else (self.attention,)

    def _steps(self, module: str | None) -> list[Step]:
        return [*_of(self.steps, module), *(p.step for p in _of(self.products, module))]

    def _cost(
        self,
        matmuls: list[Matmul],
        attention: list[tuple[tuple[Matmul, ...], int]],
        a_token: list[tuple[int, int]],
        once: list[tuple[int, int]],
    ) -> Cost:
        every = (*matmuls, *(m for products, _ in attention for m in products))
        kernels = len(every) + sum(n for n, _ in (*a_token, *once))
        elements = self.tokens * sum(n for _, n in a_token) + sum(n for _, n in once)
        work = Work(every, sum(n for _, n in attention), kernels, self.width, self.flash)
        return Cost(work, elements)


Part = TypeVar("Part", Step, Product, Attention)


def _of(parts: Iterable[Part], module: str | None) -> list[Part]:
    """Those of a module, or all."""
    return [part for part in parts if module in (None, part.module)]


LAST: Final = "mlp.down"
"""The last module of a block: its product and the residual keep nothing that is not kept before."""
ATTENTION: Final = "attention"
SCORES: Final = ("scale", "mask", "softmax")


def norm(module: str, width: int, *, joins: bool = False, adds: bool = False) -> Step:
    """A norm over `width` elements. Compiled, it `adds` the residual before it, and its backward
    `joins` the gradient that passes by it.

    Forward: input, output. Backward: gradient, input, gradient of the input; then gradient and input
    again for its own parameters.
    """
    return Step(
        "norm",
        module,
        (1, 4 * width if adds else 2 * width),
        (2, 6 * width if joins else 5 * width),
    )


def residual(module: str, width: int) -> Step:
    """Input plus branch. Backward: the gradients of the two paths are added where they part."""
    return Step("residual", module, (1, 3 * width), (1, 3 * width))


def attention_steps(module: str, hidden: int, kv: int, scores: int, *, fused: bool) -> list[Step]:
    """What attention moves: its inputs and output, or `scores` a token where it is eager.

    FlashAttention-2's backward: a kernel for rows of output · gradient, which clears the float32
    gradient of the queries; the main one; one that casts that gradient.
    """
    if fused:
        backward = 13 * hidden + 4 * kv
        return [Step(ATTENTION, module, (1, 2 * hidden + 2 * kv), (3, backward))]
    return [
        Step("scale", module, (1, 2 * scores), (1, 2 * scores)),
        Step("mask", module, (1, 2 * scores), (1, 2 * scores)),
        Step("softmax", module, (1, 2 * scores), (1, 3 * scores)),
    ]


def gpt_steps(
    hidden: int, kv: int, ffn: int, attention: list[Step], *, compiled: bool
) -> list[Step]:
    """A GPT block; see Note [Kernels of a block]."""
    return [
        norm("norm1", hidden, joins=compiled),
        Step("join", "attention.qkv", backward=(1, 2 * (hidden + 2 * kv))),
        *attention,
        *([] if compiled else [residual("attention.out", hidden)]),
        norm("norm2", hidden, joins=compiled, adds=compiled),
        Step("gelu", "mlp.up", (1, 2 * ffn), (1, 3 * ffn)),
        _last_residual(LAST, hidden, compiled=compiled),
    ]


def llama_steps(
    hidden: int, kv: int, ffn: int, attention: list[Step], *, compiled: bool
) -> list[Step]:
    """A Llama block; see Note [Kernels of a block].

    Rotary embedding: queries and keys to float32, times a complex number, and back.
    """
    turned = hidden + kv
    rotary = (1, 2 * turned) if compiled else (6, 10 * turned)
    gated = (
        [Step("swiglu", "mlp.up", (1, 3 * ffn), (1, 6 * ffn))]
        if compiled
        else [
            Step("silu", "mlp.gate", (1, 2 * ffn), (1, 3 * ffn)),
            Step("times", "mlp.up", (1, 3 * ffn), (2, 6 * ffn)),
        ]
    )
    return [
        norm("norm1", hidden, joins=compiled),
        Step("join", "attention.qkv", backward=(1, 2 * (hidden + 2 * kv))),
        Step("rotary", "attention.qkv", rotary, rotary),
        *attention,
        *([] if compiled else [residual("attention.out", hidden)]),
        norm("norm2", hidden, joins=compiled, adds=compiled),
        # The gradients that gate and up hand to their common input.
        Step("join", "mlp.gate", backward=(1, 3 * hidden)),
        *gated,
        _last_residual(LAST, hidden, compiled=compiled),
    ]


def _last_residual(module: str, hidden: int, *, compiled: bool) -> Step:
    """Compiled, the norm before it adds up the gradients."""
    step = residual(module, hidden)
    return Step(step.name, module, step.forward) if compiled else step
