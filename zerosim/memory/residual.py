"""What comes beside the states, in closed form: activations, checkpoints, buffers, estimators of others."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from zerosim.errors import ScenarioError

RECOMPUTE: Final = ("none", "selective", "full")
NCCL_BUFFER_BYTES: Final = 2**19 + 4800 * 2**10 + 2**22
"""Of each channel and peer: LL 0.5, LL128 4.6875 and Simple 4 MiB (NCCL src/include/device.h)."""
RECOMPUTE_SHARE: Final = Fraction(1, 3)
"""Full recomputation repeats one forward of three (a backward is two): 33 % (arXiv 1910.02054 §3.2)."""


@dataclass(frozen=True, slots=True)
class Transformer:
    """The sizes that activations depend on."""

    layers: int
    hidden: int
    heads: int
    seq: int
    batch: int

    @property
    def width(self) -> int:
        """Elements of one activation of the residual stream: batch · seq · hidden."""
        return self.batch * self.seq * self.hidden

    @property
    def n_params(self) -> int:
        """12·layers·hidden²: the blocks alone, without embeddings."""
        return 12 * self.layers * self.hidden**2


def paper_activations(model: Transformer) -> int:
    """Elements, 12·batch·seq·hidden·layers (arXiv 1910.02054 §3.2, its footnote)."""
    return 12 * model.width * model.layers


def checkpoints(model: Transformer, model_parallel: int = 1) -> Fraction:
    """Elements of one checkpoint a layer; split over the model-parallel ranks by Pa (§6.1)."""
    return Fraction(model.width * model.layers, model_parallel)


def activation_bytes(
    model: Transformer,
    *,
    tensor_parallel: int = 1,
    sequence_parallel: bool = False,
    recompute: str = "none",
    flash: bool = False,
) -> Fraction:
    """Bytes of all layers in 16 bits (Korthikanti et al., arXiv 2205.05198, table 2).

    `recompute`: none, selective (drops the attention scores, as `flash` does), full (one checkpoint a
    layer). Raises ScenarioError for another.
    """
    if recompute not in RECOMPUTE:
        raise ScenarioError(f"recompute is '{recompute}': give {', '.join(RECOMPUTE)}")
    t = tensor_parallel
    if recompute == "full":
        return Fraction(2 * model.width * model.layers)
    kept = Fraction(34, t) if sequence_parallel else 10 + Fraction(24, t)
    scores = Fraction(5 * model.heads * model.seq, model.hidden * t)
    if recompute == "selective" or flash:
        scores = Fraction(0)
    return model.layers * model.width * (kept + scores)


def model_parallel_elements(model: Transformer, *, partitioned: bool = False) -> int:
    """Elements that a block moves with checkpointing: 6 all-reduces, and one all-gather for Pa (§8)."""
    return (13 if partitioned else 12) * model.width


def deepspeed_zero2(n_params: int, n_ranks: int, *, offload: bool = False) -> int:
    """Device bytes by DeepSpeed's `estimate_zero2_model_states_mem_needs`: 2Ψ + 18Ψ/N.

    18 = gradients in 16 and 32 bits, parameters in 32, two moments. Its docs (memory.rst) still print
    the older 4Ψ + 16Ψ/N.
    """
    return 2 * n_params + (0 if offload else math.floor(Fraction(18 * n_params, n_ranks)))


def deepspeed_zero2_printed(n_params: int, n_ranks: int, *, offload: bool = False) -> int:
    """The same as DeepSpeed's docs (code-docs/source/memory.rst) still print it: 4Ψ + 16Ψ/N."""
    if offload:
        return 2 * n_params
    return 4 * n_params + math.floor(Fraction(16 * n_params, n_ranks))


def deepspeed_zero3(n_params: int, n_ranks: int, largest_layer: int, offload: str = "none") -> int:
    """Device bytes by DeepSpeed's `estimate_zero3_model_states_mem_needs`.

    `offload`: none, optimizer, all (parameters too). Raises ScenarioError for another.
    """
    share = {"none": 18, "optimizer": 2, "all": 0}
    if offload not in share:
        raise ScenarioError(f"offload is '{offload}': give {', '.join(share)}")
    return 4 * largest_layer + math.floor(Fraction(share[offload] * n_params, n_ranks))
