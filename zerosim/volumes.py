"""What a step sends, in closed form: how often the parameters pass every rank, scheme by scheme.

A ring all-gather or reduce-scatter of Ψ elements sends Ψ(N-1)/N from each of N ranks, an all-reduce
twice that (nccl-tests, doc/PERFORMANCE.md); a reduce to each owner, Ψ(N-1)/N in the mean.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from zerosim.registry import Registry


@dataclass(frozen=True, slots=True)
class Passes:
    """How often Ψ is moved: so often a step, and so often again in each micro-batch."""

    per_step: int = 0
    per_micro_batch: int = 0

    def of(self, micro_batches: int) -> int:
        """In a step of so many micro-batches."""
        return self.per_step + self.per_micro_batch * micro_batches


NEVER: Final = Passes()
ONCE: Final = Passes(per_step=1)
EACH: Final = Passes(per_micro_batch=1)
TWICE_EACH: Final = Passes(per_micro_batch=2)


@dataclass(frozen=True, slots=True)
class Volume:
    """A scheme's collectives over all parameters: gathers, reduce-scatters (or reduces), all-reduces."""

    gathers: Passes
    scatters: Passes
    all_reduces: Passes
    source: str


VOLUMES: Final = Registry(
    "volume",
    {
        "ddp": Volume(
            NEVER, NEVER, ONCE, "arXiv 1910.02054 §7.1: 2Ψ; the last micro-batch reduces"
        ),
        "zero1": Volume(ONCE, ONCE, NEVER, "arXiv 1910.02054 §7.2.1: 2Ψ"),
        "zero2": Volume(ONCE, EACH, NEVER, "arXiv 1910.02054 §7.2.1: 2Ψ"),
        "zero3": Volume(TWICE_EACH, EACH, NEVER, "arXiv 1910.02054 §7.2.2: 3Ψ"),
        "deepspeed-1": Volume(ONCE, NEVER, ONCE, "DeepSpeed 0.19.8 as it runs: 3Ψ, not 2Ψ"),
        "deepspeed-2": Volume(ONCE, NEVER, EACH, "DeepSpeed 0.19.8 as it runs: 3Ψ, not 2Ψ"),
        "deepspeed-2-reduce": Volume(
            ONCE, EACH, NEVER, "use_multi_rank_bucket_allreduce=false: a reduce to each owner"
        ),
        "deepspeed-3": Volume(
            EACH, EACH, NEVER, "DeepSpeed 0.19.8 at its defaults, fewer than 1e9 parameters: 2Ψ"
        ),
        "fsdp": Volume(TWICE_EACH, EACH, NEVER, "FULL_SHARD: 3Ψ"),
        "fsdp-no-sync": Volume(TWICE_EACH, ONCE, NEVER, "FULL_SHARD, gradients kept unreduced"),
        "fsdp-shard-grad-op": Volume(EACH, EACH, NEVER, "SHARD_GRAD_OP: no gather in backward"),
        "colossalai-1": Volume(
            ONCE, NEVER, EACH, "ColossalAI after the even split, ZeRO-1: 3Ψ; every backward reduces"
        ),
        "colossalai-2": Volume(ONCE, EACH, NEVER, "ColossalAI after the even split, ZeRO-2: 2Ψ"),
        "colossalai-1-old": Volume(
            ONCE, NEVER, EACH, "ColossalAI before the even split: 3Ψ, broadcasts for gathers"
        ),
        "colossalai-2-old": Volume(
            ONCE, EACH, NEVER, "the same, reduced to each owner: 2Ψ, unevenly over the ranks"
        ),
        "megatron": Volume(ONCE, ONCE, NEVER, "Megatron-LM's distributed optimizer: 2Ψ"),
    },
)
"""By scheme; the schedules of these names are held to them by tests."""


def elements_sent(
    scheme: str, n_params: int, n_ranks: int, *, micro_batches: int = 1, backend: str = "nccl"
) -> Fraction:
    """Elements that one rank sends in a step, exactly. Gloo's reduce-scatter moves an all-reduce.

    Raises UnknownNameError for an unknown scheme.
    """
    volume = VOLUMES[scheme]
    scatters = volume.scatters.of(micro_batches) * (2 if backend == "gloo" else 1)
    times = volume.gathers.of(micro_batches) + scatters + 2 * volume.all_reduces.of(micro_batches)
    return times * n_params * Fraction(n_ranks - 1, n_ranks)


def zeropp_share() -> Fraction:
    """What ZeRO++ sends across nodes, as a share of ZeRO-3's 3Ψ 16-bit elements.

    Forward gathers in 8 bits (half of Ψ), backward gathers inside the node (none), gradients in
    4 bits (a quarter of Ψ): arXiv 2306.10209 and DeepSpeed's docs/_tutorials/zeropp.md.
    """
    return (Fraction(8, 16) + 0 + Fraction(4, 16)) / 3
