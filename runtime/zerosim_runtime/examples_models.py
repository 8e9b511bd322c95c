"""Models to extract and to copy from: GPT-2 and Llama in plain torch, each made by a small factory."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812 - torch's own custom

_ROTARY_BASE = 10_000.0


def gpt2() -> nn.Module:
    """GPT-2 small: 124M parameters, tied (Radford et al. 2019)."""
    return Gpt(layers=12, hidden=768, heads=12, vocab=50257, seq=1024)


def gpt2_xl() -> nn.Module:
    """GPT-2 1.5B: 1557.6M parameters, tied (Radford et al. 2019)."""
    return Gpt(layers=48, hidden=1600, heads=25, vocab=50257, seq=1024)


def llama2_7b() -> nn.Module:
    """Llama 2 7B (arXiv 2307.09288)."""
    return Llama(layers=32, hidden=4096, heads=32, kv_heads=32, ffn=11008, vocab=32000)


def llama3_8b() -> nn.Module:
    """Llama 3 8B: keys and values of eight heads (arXiv 2407.21783)."""
    return Llama(layers=32, hidden=4096, heads=32, kv_heads=8, ffn=14336, vocab=128256)


class Gpt(nn.Module):
    """A GPT-2: learned positions, LayerNorm before, GELU, biases; the head shares the embedding."""

    def __init__(self, *, layers: int, hidden: int, heads: int, vocab: int, seq: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocab, hidden)
        self.position = nn.Parameter(torch.empty(seq, hidden))
        self.blocks = nn.ModuleList(GptBlock(hidden, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(hidden)
        self.head = nn.Linear(hidden, vocab, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Scores `[batch, seq, vocab]` of token ids `[batch, seq]`."""
        x = self.embedding(ids) + self.position[: ids.shape[1]]
        for block in self.blocks:
            x = block(x)
        scores: torch.Tensor = self.head(self.norm(x))
        return scores


class GptBlock(nn.Module):
    """Attention and feed-forward, each added to its input."""

    def __init__(self, hidden: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(hidden)
        self.qkv = nn.Linear(hidden, 3 * hidden)
        self.out = nn.Linear(hidden, hidden)
        self.norm2 = nn.LayerNorm(hidden)
        self.up = nn.Linear(hidden, 4 * hidden)
        self.down = nn.Linear(4 * hidden, hidden)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """`[batch, seq, hidden]` to the same."""
        query, key, value = (
            _split(part, self.heads) for part in self.qkv(self.norm1(x)).chunk(3, dim=-1)
        )
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(_joined(mixed))
        fed: torch.Tensor = self.down(F.gelu(self.up(self.norm2(x))))
        return x + fed


class Llama(nn.Module):
    """A Llama: rotary positions, RMSNorm before, SwiGLU, grouped queries, no biases."""

    def __init__(
        self, *, layers: int, hidden: int, heads: int, kv_heads: int, ffn: int, vocab: int
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocab, hidden)
        self.blocks = nn.ModuleList(LlamaBlock(hidden, heads, kv_heads, ffn) for _ in range(layers))
        self.norm = nn.RMSNorm(hidden)
        self.head = nn.Linear(hidden, vocab, bias=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Scores `[batch, seq, vocab]` of token ids `[batch, seq]`."""
        x = self.embedding(ids)
        for block in self.blocks:
            x = block(x)
        scores: torch.Tensor = self.head(self.norm(x))
        return scores


class LlamaBlock(nn.Module):
    """Attention and feed-forward, each added to its input."""

    def __init__(self, hidden: int, heads: int, kv_heads: int, ffn: int) -> None:
        super().__init__()
        self.heads, self.kv_heads = heads, kv_heads
        width = hidden // heads
        self.norm1 = nn.RMSNorm(hidden)
        self.query = nn.Linear(hidden, hidden, bias=False)
        self.key = nn.Linear(hidden, kv_heads * width, bias=False)
        self.value = nn.Linear(hidden, kv_heads * width, bias=False)
        self.out = nn.Linear(hidden, hidden, bias=False)
        self.norm2 = nn.RMSNorm(hidden)
        self.gate = nn.Linear(hidden, ffn, bias=False)
        self.up = nn.Linear(hidden, ffn, bias=False)
        self.down = nn.Linear(ffn, hidden, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """`[batch, seq, hidden]` to the same."""
        y = self.norm1(x)
        query = _rotated(_split(self.query(y), self.heads))
        key = _rotated(_split(self.key(y), self.kv_heads))
        value = _split(self.value(y), self.kv_heads)
        grouped = self.heads != self.kv_heads
        mixed = F.scaled_dot_product_attention(
            query, key, value, is_causal=True, enable_gqa=grouped
        )
        x = x + self.out(_joined(mixed))
        y = self.norm2(x)
        fed: torch.Tensor = self.down(F.silu(self.gate(y)) * self.up(y))
        return x + fed


def _split(x: torch.Tensor, heads: int) -> torch.Tensor:
    """`[batch, seq, heads · width]` as `[batch, heads, seq, width]`."""
    return x.view(*x.shape[:2], heads, -1).transpose(1, 2)


def _joined(x: torch.Tensor) -> torch.Tensor:
    return x.transpose(1, 2).flatten(2)


def _rotated(x: torch.Tensor) -> torch.Tensor:
    """Rotary position embedding of `[batch, heads, seq, width]`, halves turned against each other."""
    seq, half = x.shape[2], x.shape[3] // 2
    rates = _ROTARY_BASE ** (-torch.arange(half, device=x.device) / half)
    angles = torch.arange(seq, device=x.device)[:, None] * rates
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    first, second = x[..., :half], x[..., half:]
    return torch.cat((first * cos - second * sin, first * sin + second * cos), dim=-1)
