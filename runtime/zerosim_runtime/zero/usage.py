"""Which parameters any rank has used in a step: ranks sum a map of theirs. See Note [Layer drop]."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import torch

from zerosim.errors import RuntimeFailedError
from zerosim_runtime.zero.channels import Channels

Rows = Mapping[str, torch.Tensor | None]


def rows_used(rows: Rows, used: Collection[str], channels: Channels) -> Rows:
    """The reduced rows, but for parameters that no rank has used.

    Raises RuntimeFailedError if only other ranks have reduced one.
    """
    if not rows:
        return rows
    flags = torch.tensor([name in used for name in rows], dtype=torch.int32).to(channels.device)
    channels.all_reduce("used", flags).wait()
    found: dict[str, torch.Tensor | None] = {}
    for (name, row), n_ranks in zip(rows.items(), flags.tolist(), strict=True):
        if n_ranks and row is None:
            raise RuntimeFailedError(
                f"'{name}' has no gradient on rank {channels.rank} but has one elsewhere: "
                "let all ranks call the same units"
            )
        found[name] = row if n_ranks else None
    return found
