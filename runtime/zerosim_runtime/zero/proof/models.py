"""The models that the proof trains: small, and each awkward in a way of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, cast

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F  # noqa: N812 - torch's own custom
from torch.utils.checkpoint import checkpoint


@dataclass(frozen=True, slots=True)
class Shape:
    """A small language model; `uses` are the blocks in the order in which they are called."""

    dim: int = 16
    heads: int = 2
    vocab: int = 32
    seq: int = 5
    blocks: int = 3
    uses: tuple[int, ...] = (0, 1, 2)
    tied: bool = False
    recomputed: bool = False


class Block(nn.Module):
    """Causal attention and a feed-forward network, each added to its input."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.heads = shape.heads
        self.norm = nn.LayerNorm(shape.dim)
        self.qkv = nn.Linear(shape.dim, 3 * shape.dim)
        self.out = nn.Linear(shape.dim, shape.dim)
        self.up = nn.Linear(shape.dim, 2 * shape.dim + 1)
        self.down = nn.Linear(2 * shape.dim + 1, shape.dim)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The block's output, in the shape of its input `[batch, seq, dim]`."""
        batch, seq, dim = x.shape
        packed = self.qkv(self.norm(x)).view(batch, seq, self.heads, -1).transpose(1, 2)
        query, key, value = packed.chunk(3, dim=-1)
        scores = query @ key.transpose(-1, -2) / (dim // self.heads) ** 0.5
        hidden = torch.ones(seq, seq, dtype=torch.bool, device=x.device).triu(1)
        mixed = scores.masked_fill(hidden, float("-inf")).softmax(-1) @ value
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, seq, dim))
        return cast("torch.Tensor", x + self.down(F.gelu(self.up(x))))


class Language(nn.Module):
    """Token ids to the loss of the next ones. Blocks in `skipped` are left out (layer drop)."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.skipped: frozenset[int] = frozenset()
        self.embedding = nn.Embedding(shape.vocab, shape.dim)
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.blocks))
        self.norm = nn.LayerNorm(shape.dim)
        self.head = nn.Linear(shape.dim, shape.vocab, bias=False)
        if shape.tied:
            self.head.weight = self.embedding.weight

    def forward(self, ids: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """The mean loss of ids `[batch, seq]`."""
        x = self.embedding(ids)
        for use in self.shape.uses:
            if use in self.skipped:
                continue
            block = self.blocks[use]
            x = checkpoint(block, x, use_reentrant=False) if self.shape.recomputed else block(x)
        scores = self.head(self.norm(x))
        return F.cross_entropy(scores.flatten(0, 1), targets.flatten())


class Perceptron(nn.Module):
    """Linear layers of the given widths; no ModuleList, so that its children are the units."""

    def __init__(self, widths: Sequence[int]) -> None:
        super().__init__()
        self.widths = tuple(widths)
        self.skipped: frozenset[int] = frozenset()
        for i in range(len(self.widths) - 1):
            self.add_module(f"layer{i}", nn.Linear(self.widths[i], self.widths[i + 1]))
        self.scale = nn.Parameter(torch.tensor(0.5))

    def forward(self, x: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """The mean squared error of `[batch, first width]`; its gradient reaches no input."""
        for layer in self.children():
            x = torch.tanh(layer(x))
        return F.mse_loss(x * self.scale, targets)


Module = Language | Perceptron
_ALBERT: Final = Shape(blocks=1, uses=(0, 0, 0))
MODELS: Final[dict[str, Callable[[], Module]]] = {
    "perceptron": lambda: Perceptron((6, 10, 8, 6)),
    "tiny": lambda: Perceptron((1, 2, 1, 3)),
    "untied": lambda: Language(Shape()),
    "tied": lambda: Language(Shape(tied=True)),
    "uneven": lambda: Language(Shape(dim=21, heads=3, vocab=101, tied=True)),
    "recomputed": lambda: Language(Shape(tied=True, recomputed=True)),
    "shared": lambda: Language(_ALBERT),
    "shared-twice": lambda: Language(Shape(blocks=2, uses=(0, 1, 0), tied=True)),
    "shared-recomputed": lambda: Language(Shape(blocks=2, uses=(0, 1, 0), recomputed=True)),
}


def here() -> torch.device:
    """Where ranks compute: on the current GPU if they talk by NCCL."""
    if dist.is_initialized() and dist.get_backend() == "nccl":
        return torch.device("cuda", torch.cuda.current_device())
    return torch.device("cpu")


def build(name: str, dtype: torch.dtype, seed: int) -> Module:
    """A model with first values from the seed alone: the same on every rank, and on any device."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return MODELS[name]().to(here(), dtype)


def batch_of(
    model: Module, dtype: torch.dtype, *, size: int, numbers: Sequence[int]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Inputs and targets of `size` examples, drawn from `numbers` alone."""
    mixed = 0
    for number in numbers:
        mixed = mixed * 1_009 + number + 1
    generator = torch.Generator().manual_seed(mixed)
    if isinstance(model, Language):
        shape = (size, model.shape.seq + 1)
        ids = torch.randint(model.shape.vocab, shape, generator=generator)
        return ids[:, :-1].to(here()), ids[:, 1:].to(here())
    first, last = model.widths[0], model.widths[-1]
    x = torch.randn(size, first, generator=generator, dtype=torch.float64)
    y = torch.randn(size, last, generator=generator, dtype=torch.float64)
    return x.to(here(), dtype), y.to(here(), dtype)
