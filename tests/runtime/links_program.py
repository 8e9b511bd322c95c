"""What each rank of the tests of communicators does: every way to move rows, and how long it took."""

from __future__ import annotations

import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import orjson
import torch
import torch.distributed as dist

from zerosim.kinds import Kind
from zerosim_runtime.collectives import Communicator, communicator
from zerosim_runtime.pace import Pace

ROW = 20_011
"""Elements of a rank's row: some pieces, the last one not full."""


def main(directory: Path) -> None:
    torch.set_num_threads(1)
    sys.setswitchinterval(1e-4)
    # As a user's script does it: nobody has told torch of zerosim's backend.
    dist.init_process_group("gloo", timeout=timedelta(seconds=60))
    report: dict[str, Any] = {"rows": rows()}
    if dist.get_world_size() == 2:
        report |= {"paced": paced(), "shared": shared()}
    (directory / f"report-{dist.get_rank()}.json").write_bytes(orjson.dumps(report))
    dist.destroy_process_group()


def rows() -> dict[str, Any]:
    """By dtype: whether both ways to reduce-scatter and to gather agree, and how far sums are off."""
    native, split = communicator("gloo", 60), communicator("gloo", 60, scatter="all-to-all")
    found = {}
    for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int32):
        ours, theirs = _scattered(split, dtype), _scattered(native, dtype)
        exact = sum(_source(rank, dtype).double() for rank in range(dist.get_world_size()))
        assert isinstance(exact, torch.Tensor)
        mine = exact.view(-1, ROW)[dist.get_rank()]
        found[str(dtype).removeprefix("torch.")] = {
            "equal": torch.equal(ours, theirs),
            "error": (ours.double() - mine).abs().max().item(),
            "native_error": (theirs.double() - mine).abs().max().item(),
            "gathered": torch.equal(_gathered(split, dtype), _gathered(native, dtype)),
        }
    native.close()
    split.close()
    return found


def paced() -> list[float]:
    """Seconds of an all-gather, all-reduce and both reduce-scatters of 800 kB at 4 MB/s, rank 0 late."""
    link = Pace(4e6, 0.01)
    whole, row = torch.zeros(200_000), torch.zeros(200_000 // dist.get_world_size())
    taken = []
    for scatter, kind in (
        ("native", Kind.ALL_GATHER),
        ("native", Kind.ALL_REDUCE),
        ("native", Kind.REDUCE_SCATTER),
        ("all-to-all", Kind.REDUCE_SCATTER),
    ):
        channel = communicator("gloo", 60, scatter=scatter, pace=link)
        dist.barrier()
        began = time.perf_counter()
        if dist.get_rank() == 0:
            time.sleep(0.1)
        output, source = (row, whole) if kind is Kind.REDUCE_SCATTER else (whole, row)
        source = whole if kind is Kind.ALL_REDUCE else source
        channel.issue(kind, "x", output, source).wait()
        taken.append(time.perf_counter() - began)
        channel.close()
    return taken


def shared() -> list[float]:
    """Seconds of two all-gathers of 800 kB at 4 MB/s at once on two communicators of one link."""
    link = Pace(4e6)
    channels = [communicator("gloo", 60, pace=link) for _ in range(2)]
    whole = [torch.zeros(200_000) for _ in channels]
    row = torch.zeros(200_000 // dist.get_world_size())
    dist.barrier()
    began = time.perf_counter()
    handles = [c.issue(Kind.ALL_GATHER, "x", w, row) for c, w in zip(channels, whole, strict=True)]
    taken = []
    for handle in handles:
        handle.wait()
        taken.append(time.perf_counter() - began)
    for channel in channels:
        channel.close()
    return taken


def _scattered(channel: Communicator, dtype: torch.dtype) -> torch.Tensor:
    output = torch.empty(ROW, dtype=dtype)
    channel.issue(Kind.REDUCE_SCATTER, "x", output, _source(dist.get_rank(), dtype)).wait()
    return output


def _gathered(channel: Communicator, dtype: torch.dtype) -> torch.Tensor:
    output = torch.empty(dist.get_world_size() * ROW, dtype=dtype)
    own = _source(dist.get_rank(), dtype)[:ROW].clone()
    channel.issue(Kind.ALL_GATHER, "x", output, own).wait()
    return output


def _source(rank: int, dtype: torch.dtype) -> torch.Tensor:
    generator = torch.Generator().manual_seed(rank)
    numel = dist.get_world_size() * ROW
    return (torch.randn(numel, generator=generator, dtype=torch.float64) * 100).to(dtype)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
