"""The torch model that DeepSpeed is observed with: nested nn.Modules that mark when they run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812 - torch's own custom
from torch.utils.checkpoint import checkpoint

from zerosim.scenario.sections import WorkloadSection
from zerosim_runtime.equality.watch import Record, mark


@dataclass(frozen=True, slots=True)
class Shape:
    """What a scenario does not say: biases, whether the input has a gradient, how layers checkpoint.

    `checkpointing` is None, `reentrant` or `non-reentrant`, around every block (or uniform layer).
    """

    bias: bool = True
    input_grad: bool = False
    checkpointing: str | None = None


def marked(module: nn.Module, record: Record, name: str) -> nn.Module:
    """The module itself, which from now on marks its forward and its backward inside its hooks."""
    run = module.forward

    def forward(*xs: torch.Tensor) -> torch.Tensor:
        record.begun(name)
        return mark(record, name, run(*xs))

    module.forward = forward
    return module


class Embedding(nn.Module):
    """Token and position embeddings: two modules."""

    def __init__(self, w: WorkloadSection, record: Record) -> None:
        super().__init__()
        self.embedding = marked(nn.Embedding(_vocab(w), w.hidden), record, "emb.embedding")
        self.position = marked(nn.Embedding(w.seq, w.hidden), record, "emb.position")

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """`[batch, seq]` ids as `[batch, seq, hidden]`."""
        places = torch.arange(ids.shape[1], device=ids.device)
        return cast("torch.Tensor", self.embedding(ids) + self.position(places))


class Head(nn.Module):
    """The last norm and the output scores."""

    def __init__(self, w: WorkloadSection, record: Record) -> None:
        super().__init__()
        self.norm = marked(nn.LayerNorm(w.hidden), record, "head.norm")
        # A workload names a module by its parameter.
        name = "head.embedding" if w.tied else "head.head"
        self.head = marked(nn.Linear(w.hidden, _vocab(w), bias=False), record, name)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """`[batch, seq, vocab]` scores."""
        return cast("torch.Tensor", self.head(self.norm(x)))


class Block(nn.Module):
    """A GPT block: six modules with parameters of their own, none in the block itself."""

    def __init__(self, w: WorkloadSection, record: Record, name: str) -> None:
        super().__init__()
        h, ffn = w.hidden, w.ffn or 4 * w.hidden
        self.heads = w.heads
        self.norm1 = marked(nn.LayerNorm(h), record, f"{name}.norm1")
        self.attention = nn.ModuleDict(
            {
                "qkv": marked(nn.Linear(h, 3 * h), record, f"{name}.attention.qkv"),
                "out": marked(nn.Linear(h, h), record, f"{name}.attention.out"),
            }
        )
        self.norm2 = marked(nn.LayerNorm(h), record, f"{name}.norm2")
        self.mlp = nn.ModuleDict(
            {
                "up": marked(nn.Linear(h, ffn), record, f"{name}.mlp.up"),
                "down": marked(nn.Linear(ffn, h), record, f"{name}.mlp.down"),
            }
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Attention and feed-forward, each added to its input."""
        batch, seq, hidden = x.shape
        packed = self.attention["qkv"](self.norm1(x)).view(batch, seq, 3 * self.heads, -1)
        query, key, value = packed.transpose(1, 2).chunk(3, dim=1)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.attention["out"](mixed.transpose(1, 2).reshape(batch, seq, hidden))
        return cast("torch.Tensor", x + self.mlp["down"](F.gelu(self.mlp["up"](self.norm2(x)))))


class Model(nn.Module):
    """The layers in order, then the loss; the model itself holds no parameter."""

    def __init__(self, w: WorkloadSection, shape: Shape, record: Record) -> None:
        super().__init__()
        self.shape = shape
        layers = _layers(w, shape, record)
        if w.tied:
            _tie(layers)
        self.layers = nn.ModuleList(layers)

    def forward(self, x: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """The mean loss of a micro-batch."""
        for layer in self.layers:
            # As in a workload, embeddings and head keep what they need.
            if self.shape.checkpointing is None or isinstance(layer, Embedding | Head):
                x = layer(x)
            else:
                reentrant = self.shape.checkpointing == "reentrant"
                x = checkpoint(layer, x, use_reentrant=reentrant)
        if targets.is_floating_point():
            return F.mse_loss(x, targets)
        return F.cross_entropy(x.flatten(0, 1), targets.flatten())


def _layers(w: WorkloadSection, shape: Shape, record: Record) -> list[nn.Module]:
    if w.model == "uniform":
        return [
            marked(nn.Linear(w.hidden, w.hidden, bias=shape.bias), record, str(i))
            for i in range(w.layers)
        ]
    blocks = [Block(w, record, str(i)) for i in range(w.layers)]
    return [Embedding(w, record), *blocks, Head(w, record)]


def _tie(layers: list[nn.Module]) -> None:
    table = layers[0].get_parameter("embedding.weight")
    layers[-1].get_submodule("head").register_parameter("weight", table)


def _vocab(w: WorkloadSection) -> int:
    return w.vocab or w.hidden


def batch(
    w: WorkloadSection, shape: Shape, dtype: torch.dtype
) -> tuple[torch.Tensor, torch.Tensor]:
    """Inputs and targets of one micro-batch; only their shapes matter to what is observed."""
    if w.model == "uniform":
        x = torch.randn(w.micro_batch * w.seq, w.hidden, dtype=dtype)
        return x.requires_grad_(shape.input_grad), torch.zeros_like(x)
    ids = torch.randint(_vocab(w), (w.micro_batch, w.seq))
    return ids, ids
