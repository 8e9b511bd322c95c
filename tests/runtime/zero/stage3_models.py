"""Small modules that are awkward to shard: tied, shared, nested, checkpointed, with odd inputs and outputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

N_WORDS, DIM = 13, 7


class Block(nn.Module):
    """A residual block; `scale` is smaller than the world, `idle` is never used."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(DIM)
        self.up = nn.Linear(DIM, 2 * DIM)
        self.down = nn.Linear(2 * DIM, DIM)
        self.scale = nn.Parameter(torch.ones(1))
        self.idle = nn.Parameter(torch.ones(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.down(torch.tanh(self.up(self.norm(x))))
        return x + self.scale * y


class Net(nn.Module):
    """Words in, scores out. `around` calls blocks, `dropped` says which are left out."""

    def __init__(
        self,
        *,
        tied: bool = False,
        shared: bool = False,
        n_blocks: int = 4,
        around: Callable[[Sequence[nn.Module], torch.Tensor], torch.Tensor] | None = None,
    ) -> None:
        super().__init__()
        self.emb = nn.Embedding(N_WORDS, DIM)
        block = Block()
        self.blocks = nn.ModuleList(block if shared else Block() for _ in range(n_blocks))
        self.head = nn.Linear(DIM, N_WORDS, bias=False)
        self.around = around or plainly
        self.dropped: set[int] = set()
        if tied:
            self.head.weight = self.emb.weight

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        kept = [block for i, block in enumerate(self.blocks) if i not in self.dropped]
        scores: torch.Tensor = self.head(self.around(kept, self.emb(words)))
        return scores


def plainly(blocks: Sequence[nn.Module], x: torch.Tensor) -> torch.Tensor:
    for block in blocks:
        x = block(x)
    return x


def each_again(*, reentrant: bool) -> Any:
    def around(blocks: Sequence[nn.Module], x: torch.Tensor) -> torch.Tensor:
        for block in blocks:
            x = checkpoint(block, x, use_reentrant=reentrant)
        return x

    return around


def pairs_again(*, reentrant: bool) -> Any:
    def around(blocks: Sequence[nn.Module], x: torch.Tensor) -> torch.Tensor:
        for i in range(0, len(blocks), 2):
            x = checkpoint(plainly, blocks[i : i + 2], x, use_reentrant=reentrant)
        return x

    return around


class Inner(nn.Module):
    """A unit that computes a part of itself again."""

    def __init__(self, *, reentrant: bool) -> None:
        super().__init__()
        self.block, self.reentrant = Block(), reentrant

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = checkpoint(self.block, torch.sin(x), use_reentrant=self.reentrant)
        return y


class Inners(Net):
    def __init__(self, *, reentrant: bool) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Inner(reentrant=reentrant) for _ in range(3))


class Chain(nn.Sequential):
    """Numbers in, numbers out: the first unit's inputs need no gradient, and there is no root."""

    def __init__(self) -> None:
        super().__init__(
            nn.Linear(DIM, 5), nn.Tanh(), nn.Linear(5, 2), nn.Linear(2, 9, bias=False), nn.ReLU()
        )


class Positions(nn.Module):
    """Returns a view of its parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.ones(9, DIM))

    def forward(self, n: int) -> torch.Tensor:
        return self.table[:n]


class Fork(nn.Module):
    """Keyword inputs, a dict with a tuple out, one output that nobody uses."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = nn.Linear(DIM, DIM), nn.Linear(DIM, DIM)

    def forward(self, *, parts: dict[str, list[torch.Tensor]]) -> dict[str, Any]:
        x, y = parts["both"]
        left = self.left(x)
        return {"out": (torch.tanh(left), self.right(y)), "spare": left * 2, "n": 3}


class Odd(nn.Module):
    """Units in containers, returned views, dicts, a parameter of its own, one unit in another."""

    def __init__(self) -> None:
        super().__init__()
        self.places = Positions()
        self.forks = nn.ModuleList([Fork(), Fork()])
        self.body = nn.ModuleDict({"forks": self.forks, "last": Block()})
        self.gain = nn.Parameter(torch.full((DIM,), 0.5))
        self.words = nn.Embedding(N_WORDS, DIM)

    def forward(self, words: torch.Tensor) -> dict[str, torch.Tensor]:
        x = self.words(words) + self.places(words.shape[1])
        for fork in self.forks:
            left, right = fork(parts={"both": [x, x * self.gain]})["out"]
            x = left + right
        return {"x": self.body["last"](x)}
