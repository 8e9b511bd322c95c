"""The model and setting pairs whose peak memory is compared with torch's FSDPMemTracker."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Final

from torch import nn

from zerosim.registry import Registry
from zerosim_runtime import examples_models as models

MODELS: Final[Registry[Callable[[], nn.Module]]] = Registry(
    "model",
    {
        "gpt-tiny": lambda: models.Gpt(layers=3, hidden=64, heads=4, vocab=500, seq=64),
        "gpt2-125m": models.gpt2,
        "gpt2-350m": lambda: models.Gpt(layers=24, hidden=1024, heads=16, vocab=50257, seq=1024),
        "gpt2-1.5b": models.gpt2_xl,
        "llama2-7b": models.llama2_7b,
    },
)


@dataclass(frozen=True, slots=True)
class MemoryCase:
    """One pair: `batch` sequences of `seq` tokens a rank, with or without full checkpointing.

    The parameters are stored in float32, compute in bfloat16 and are reduced in float32.
    """

    model: str
    batch: int
    seq: int
    world_size: int
    checkpointing: str

    @property
    def name(self) -> str:
        """Unique among the pairs."""
        words = (self.model, f"b{self.batch}", f"{self.world_size} ranks", self.checkpointing)
        return " ".join(words)


_SETTINGS: Final = tuple(product((8, 64), ("none", "full")))
_SIZES: Final = (("gpt2-125m", 4, 1024), ("gpt2-1.5b", 1, 1024), ("llama2-7b", 1, 2048))
CASES: Final = (
    *(MemoryCase(*size, *setting) for size, setting in product(_SIZES, _SETTINGS)),
    MemoryCase("gpt2-350m", 8, 512, 8, "none"),
    MemoryCase("gpt2-350m", 8, 512, 64, "full"),
)
REDUCED: Final = (
    MemoryCase("gpt-tiny", 2, 64, 8, "none"),
    MemoryCase("gpt-tiny", 2, 64, 8, "full"),
)
"""What the tests run."""
