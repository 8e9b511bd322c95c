"""Which parameters any rank has used in a step: ranks sum a map of theirs.

# Note [Layer drop]
A layer that the forward pass leaves out has no gradient, which is not the same as a gradient of zeros:
Adam's moments move a parameter on. So what nobody used is not stepped, and what some have used is
stepped by all, with zeros from the others.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

import torch

from zerosim.errors import RuntimeFailedError
from zerosim.plan import Allocation
from zerosim_runtime.memory import Memory
from zerosim_runtime.zero.channels import Channels

Rows = Mapping[str, torch.Tensor | None]
_USED: Final = "used"
"""What the map is called, in the ledger and in traces."""


def count_users(
    names: Collection[str], used: Collection[str], channels: Channels, memory: Memory
) -> dict[str, int]:
    """How many ranks have used each parameter of `names`; all ranks must ask together."""
    if not names:
        return {}
    flags = memory.new(Allocation(_USED, "buckets", 4 * len(names)), len(names), torch.int32)
    flags.copy_(torch.tensor([name in used for name in names]))
    channels.all_reduce(_USED, flags).wait()
    users: list[int] = flags.tolist()
    memory.drop(_USED)
    return dict(zip(names, users, strict=True))


def used_rows(
    rows: Rows, used: Collection[str], channels: Channels, memory: Memory
) -> dict[str, torch.Tensor | None]:
    """The reduced rows, but for parameters that no rank has used; all ranks must ask together.

    Raises RuntimeFailedError if only other ranks have reduced one.
    """
    users = count_users(rows, used, channels, memory)
    for name, several in users.items():
        if several and rows[name] is None:
            raise RuntimeFailedError(
                f"'{name}' has no gradient on rank {channels.rank} but has one elsewhere: "
                "let all ranks call the same units"
            )
    return {name: row if users[name] else None for name, row in rows.items()}
