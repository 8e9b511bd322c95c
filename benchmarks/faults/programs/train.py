"""A training script with the ZeRO library, in which rank 1 does something else in step 3.

`train.py swap|drop|hang|fork|kill|raise|none STAGE`; the file `FAULT_MARK` is made when it does.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn

from zerosim_runtime.zero import Options, shard

STRIKES = 3
MANY = 10_000


class Blocks(nn.Module):
    """Blocks of one shape, computed in the order of `order`."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(nn.Linear(16, 16) for _ in range(4))
        self.order = [0, 1, 2, 3]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Through all of them."""
        for i in self.order:
            x = torch.relu(self.blocks[i](x))
        return x


def err(fault: str, model: Blocks) -> None:
    """What rank 1 does otherwise."""
    Path(os.environ["FAULT_MARK"]).touch()
    match fault:
        case "swap":
            model.order = [0, 2, 1, 3]
        case "drop":
            model.order = [0, 2, 3]
        case "raise":
            raise ValueError("no luck")
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "hang":
            time.sleep(3600)
        case "fork":
            if os.fork() == 0:
                time.sleep(3600)
            os._exit(3)


def main(fault: str, stage: int) -> None:
    """Train until the fault ends it."""
    dist.init_process_group("gloo", timeout=timedelta(seconds=120))
    torch.manual_seed(0)
    model = Blocks()
    trainer = shard(model, Options(stage=stage, bucket_bytes=2000), timeout_s=120)
    for step in range(20 if fault == "none" else MANY):
        if step == STRIKES and dist.get_rank() == 1 and fault != "none":
            err(fault, model)
        trainer.backward(model(torch.ones(2, 16)).sum())
        trainer.step()
    trainer.close()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
