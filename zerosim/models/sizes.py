"""The sizes of a transformer, and what follows from them."""

from __future__ import annotations

from dataclasses import dataclass

from zerosim.errors import ScenarioError


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes of a transformer and its micro-batch. `llama` picks SwiGLU, RMSNorm and no biases.

    `checkpointed_layers`: `checkpointing` is of so many of the first blocks, None: of all.
    `qkv_bias`: queries, keys and values of a llama have one nevertheless (Qwen2). `bias`:
    Linears and norms of a gpt have one. `compiled`: by torch.compile, which fuses kernels.
    `loss`: how its cross-entropy is computed, None: fused if compiled, else eager.
    `early_stop`: full checkpointing spares what follows the last tensor that was kept. `width`: bytes
    of an element.
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
    bias: bool = True
    early_stop: bool = False
    loss: str | None = None
    compiled: bool = False
    width: int = 2

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
