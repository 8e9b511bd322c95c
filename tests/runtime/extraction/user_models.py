"""What users hand to `zerosim extract`: small models that are right, odd, or broken in one way."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from zerosim_runtime.examples_models import Gpt, Llama

NOT_CALLABLE = 3


def small_gpt() -> nn.Module:
    return Gpt(layers=3, hidden=64, heads=4, vocab=100, seq=32)


def small_llama() -> nn.Module:
    return Llama(layers=2, hidden=64, heads=4, kv_heads=2, ffn=96, vocab=100)


class Block(nn.Module):
    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        fed: torch.Tensor = self.down(torch.relu(self.up(x)))
        return x + fed


class Stack(nn.Module):
    """Blocks that are no list: attributes; one of them is called twice."""

    def __init__(self, *, again: bool = False) -> None:
        super().__init__()
        self.first, self.second = Block(), Block()
        self.again = again

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.second(self.first(x))
        if self.again:
            x = self.first(x)
        return x


def rows() -> torch.Tensor:
    return torch.empty(4, 8)


def stack() -> tuple[nn.Module, torch.Tensor]:
    return Stack(), rows()


def stack_called_twice() -> tuple[nn.Module, torch.Tensor]:
    return Stack(again=True), rows()


def plain_sequence() -> tuple[nn.Module, torch.Tensor]:
    return nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8)), rows()


def frozen_start() -> tuple[nn.Module, torch.Tensor]:
    model = Stack()
    model.first.requires_grad_(requires_grad=False)
    return model, rows()


class Unused(Stack):
    def __init__(self) -> None:
        super().__init__()
        self.spare = nn.Linear(8, 8)


def with_unused() -> tuple[nn.Module, torch.Tensor]:
    return Unused(), rows()


class Loss(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stack = Stack()

    def forward(self, x: torch.Tensor, *, target: torch.Tensor) -> torch.Tensor:
        return nn.functional.mse_loss(self.stack(x), target)


def with_loss() -> tuple[nn.Module, dict[str, Any]]:
    return Loss(), {"x": rows(), "target": rows()}


class Fixed(Stack):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x.view(4, 8))


def fixed_batch() -> tuple[nn.Module, torch.Tensor]:
    return Fixed(), rows()


class Checkpointed(Stack):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = checkpoint(self.first, x, use_reentrant=False)
        x = self.second(x)
        return x  # noqa: RET504 - typed so


def checkpointed() -> tuple[nn.Module, torch.Tensor]:
    return Checkpointed(), rows()


class Images(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 4, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(4)
        self.head = nn.Linear(4, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.head(torch.relu(self.norm(self.stem(x))).mean(dim=(2, 3)))
        return scores


def images() -> tuple[nn.Module, torch.Tensor]:
    return Images(), torch.empty(2, 3, 16, 16)


def encoder() -> tuple[nn.Module, torch.Tensor]:
    """torch's own layers, whose attention is called from inside torch."""
    layer = nn.TransformerEncoderLayer(64, 4, dim_feedforward=128, dropout=0.1, batch_first=True)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), torch.empty(2, 32, 64)


class Attends(nn.Module):
    """Attention that drops out, and adds its own positions to a batch."""

    def __init__(self) -> None:
        super().__init__()
        self.position = nn.Parameter(torch.empty(64, 16))
        self.out = nn.Linear(16, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        heads = (x + self.position).view(*x.shape[:2], 2, 8).transpose(1, 2)
        mixed = nn.functional.scaled_dot_product_attention(heads, heads, heads, None, 0.1)
        scores: torch.Tensor = self.out(mixed.transpose(1, 2).flatten(2))
        return scores


def attention_that_drops_out() -> tuple[nn.Module, torch.Tensor]:
    return Attends(), torch.empty(1, 64, 16)


class Chooses(Stack):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        chosen: torch.Tensor = self.first(x) if x.sum().item() > 0 else self.second(x)
        return chosen


def chooses_by_values() -> tuple[nn.Module, torch.Tensor]:
    return Chooses(), rows()


def returns_text() -> str:
    return "a model"


def has_no_parameters() -> nn.Module:
    return nn.ReLU()


def raises() -> nn.Module:
    raise ValueError("no such width\nreally")


def leaves() -> nn.Module:
    raise SystemExit(3)


class NoGradient(Stack):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x).detach()


def no_gradient() -> tuple[nn.Module, torch.Tensor]:
    return NoGradient(), rows()


def wants_floats() -> nn.Module:
    return Stack()


def is_lazy() -> nn.Module:
    return nn.LazyLinear(4)
