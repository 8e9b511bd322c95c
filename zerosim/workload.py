"""What is trained: units of parameters, and the layers that compute with them in order."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Final

from zerosim.errors import ScenarioError

LOSSES: Final = ("eager", "fused", "upcast")
"""A cross-entropy kernel by kernel, or as one kernel each way; upcast: eager, of float32 logits that the
model itself gives, so that its caller holds these."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter tensor."""

    name: str
    shape: tuple[int, ...]

    @property
    def numel(self) -> int:
        """Elements of the tensor."""
        return prod(self.shape)


@dataclass(frozen=True, slots=True)
class Unit:
    """Parameters that are gathered and freed together (an FSDP unit, a module's own parameters)."""

    name: str
    parameters: tuple[Parameter, ...]

    @property
    def numel(self) -> int:
        """Elements of the unit, without padding."""
        return sum(p.numel for p in self.parameters)


@dataclass(frozen=True, slots=True)
class Matmul:
    """`count` matrix products [m, k] · [k, n], 2·m·k·n FLOPs each.

    `layout` is cuBLAS's: TN in a forward, NN for the gradient of the input, NT for that of the weight.
    `result_bytes` is what an element of the result moves: 8 if it is added to one in float32; None: as
    an element of the operands.
    """

    m: int
    k: int
    n: int
    layout: str = "TN"
    count: int = 1
    result_bytes: int | None = None

    @property
    def flops(self) -> int:
        """FLOPs of all of them."""
        return 2 * self.m * self.k * self.n * self.count

    def nbytes(self, width: int) -> int:
        """Bytes of all operands, whose elements have `width` bytes, and results."""
        result = width if self.result_bytes is None else self.result_bytes
        operands = (self.m * self.k + self.k * self.n) * width
        return (operands + self.m * self.n * result) * self.count


@dataclass(frozen=True, slots=True)
class Work:
    """What an op's FLOPs consist of: matrix products, attention, and how many kernels in all.

    The FLOPs of an op that are neither are counted at the rate of matrix products. `width`: bytes of
    an operand's element. `attention`: by which kernel, flash or flash1 (FlashAttention-2, its first).
    """

    matmuls: tuple[Matmul, ...] = ()
    attention_flops: int = 0
    kernels: int = 1
    width: int = 2
    attention: str = "flash"


@dataclass(frozen=True, slots=True)
class Cost:
    """The kernels of a pass, and the `elements` that those beside the matrix products read and write.

    `work` is None where nobody knows.
    """

    work: Work | None
    elements: int


@dataclass(frozen=True, slots=True)
class Module:
    """One nn.Module with parameters of its own; `parameters` are indices into those of the unit.

    `forward` and `backward` say by which kernels it computes, None if unknown.
    """

    name: str
    parameters: tuple[int, ...]
    forward_flops: int
    backward_flops: int
    forward: Cost | None = None
    backward: Cost | None = None


@dataclass(frozen=True, slots=True)
class Layer:
    """One piece of the forward pass, computed at once with the parameters of `unit`.

    FLOPs and element counts are of one micro-batch on one rank. `forward_elements` and
    `backward_elements` are elements read and written beside the matrix products (for the roofline);
    `activations` are the elements kept for the backward, `logits` those of the output scores.
    Before the backward, `recompute_flops` are computed again and `recomputed` elements live until its
    end; `forward_workspace`, `recompute_workspace` and `backward_workspace` only while the layer runs
    so (the most at once, beside what is kept). `gone_early`: of what is kept (or computed again), what the backward has
    dropped before it holds most. `modules`, in forward order, are what engines see that gather module by module; empty: one.
    `forward_work`, `recompute_work` and `backward_work` say which kernels these are, None if unknown;
    `recompute_elements`: as forward_elements, of what is computed again (None: of all of it).
    `loss`: how the cross-entropy of the logits is computed (LOSSES), None if that is not told apart.
    """

    name: str
    unit: int
    forward_flops: int
    backward_flops: int
    activations: int
    logits: int = 0
    forward_elements: int = 0
    backward_elements: int = 0
    recompute_flops: int = 0
    recomputed: int = 0
    forward_workspace: int = 0
    recompute_workspace: int = 0
    backward_workspace: int = 0
    gone_early: int = 0
    modules: tuple[Module, ...] = ()
    forward_work: Work | None = None
    recompute_work: Work | None = None
    backward_work: Work | None = None
    recompute_elements: int | None = None
    loss: str | None = None


@dataclass(frozen=True, slots=True)
class Workload:
    """A model and its micro-batch. `attention` is (layers, hidden, sequence), for model FLOPs.

    `counted_flops`: model FLOPs of a micro-batch, in full and causal, where they were counted.
    """

    name: str
    units: tuple[Unit, ...]
    layers: tuple[Layer, ...]
    tokens: int
    micro_batches: int = 1
    attention: tuple[int, int, int] | None = None
    counted_flops: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        """Refuse an empty model and a layer of no unit."""
        if not self.layers or not self.units:
            raise ScenarioError(f"workload '{self.name}' has 0 layers: give at least one")
        for layer in self.layers:
            if not 0 <= layer.unit < len(self.units):
                raise ScenarioError(
                    f"layer '{layer.name}' names unit {layer.unit}: there are {len(self.units)}"
                )

    @property
    def n_params(self) -> int:
        """Ψ: all parameters, without padding."""
        return sum(unit.numel for unit in self.units)

    def model_flops(self, *, causal: bool = False) -> int:
        """Model FLOPs of one rank and step: as counted, else 6 per parameter and token, plus attention.

        Attention is 12·layers·hidden·seq per token, half of it if `causal` (PaLM's convention,
        arXiv 2204.02311 appendix B).
        """
        if self.counted_flops is not None:
            return self.counted_flops[causal] * self.micro_batches
        per_token = 6 * self.n_params
        if self.attention is not None:
            n_layers, hidden, sequence = self.attention
            per_token += (6 if causal else 12) * n_layers * hidden * sequence
        return per_token * self.tokens * self.micro_batches

    def uses(self) -> tuple[tuple[int, ...], ...]:
        """Per unit, the indices of the layers that compute with it, in forward order."""
        found: list[list[int]] = [[] for _ in self.units]
        for i, layer in enumerate(self.layers):
            found[layer.unit].append(i)
        return tuple(map(tuple, found))
