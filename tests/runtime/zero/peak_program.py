"""What each rank does for the tests of the ledger's peak: three steps at every stage, and what was held at most."""

from __future__ import annotations

import sys
from pathlib import Path

import orjson
import torch
import torch.distributed as dist
from torch import nn

from zerosim_runtime.zero import Options, shard

BLOCKS = 12
BLOCK_BYTES = 4 * (128 * 512 + 512 + 512 * 128 + 128)
"""A bucket holds a block: 526,848 bytes, which divide by two and by four ranks."""


def blocks() -> nn.Sequential:
    """Twelve blocks of width 128; each is a unit."""
    torch.manual_seed(0)
    return nn.Sequential(
        *(nn.Sequential(nn.Linear(128, 512), nn.GELU(), nn.Linear(512, 128)) for _ in range(BLOCKS))
    )


def peak(stage: int) -> int:
    """The most that this rank's ledger ever booked over three steps of AdamW."""
    model = blocks()
    with shard(model, Options(stage=stage, bucket_bytes=BLOCK_BYTES)) as trainer:
        for _ in range(3):
            trainer.backward(model(torch.randn(4, 128)).square().mean())
            trainer.step()
        return trainer.ledger.peak


def main(directory: Path) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    report = [peak(stage) for stage in (1, 2, 3)]
    (directory / f"report-{dist.get_rank()}.json").write_bytes(orjson.dumps(report))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
