"""What tracing costs a step, on and off by turns in one run: DDP and FSDP2, two ranks on this CPU.

`python benchmarks/tracing.py` prints the medians with the load of the machine, the bytes that a rank
writes per 1,000 collectives, and exits 1 if a bar is missed.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import orjson
import torch
import torch.distributed as dist
import torch.distributed.fsdp
from torch import nn

ROOT: Final = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "runtime")]

from zerosim_runtime.tracing import session  # noqa: E402 - the repository may not be installed
from zerosim_runtime.tracing.tracer import Tracer, open_tracer  # noqa: E402 - same

_dist: Final[Any] = dist
RANKS: Final = 2
WINDOWS: Final = 6
"""How often tracing is switched on, and off."""
STEPS: Final = 4
"""Steps of a window; the first one is warm-up."""
MOST: Final = 1.05
MOST_BYTES: Final = 1_000_000


def block(width: int) -> nn.Module:
    """Some layers of a transformer's size, without its attention."""
    return nn.Sequential(
        nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
    )


def ddp(model: nn.Module) -> nn.Module:
    """Buckets of 1 MB, so that there are several."""
    return nn.parallel.DistributedDataParallel(model, bucket_cap_mb=1)


def fsdp2(model: nn.Module) -> nn.Module:
    """Each block is gathered by itself."""
    mesh = _dist.init_device_mesh("cpu", (dist.get_world_size(),))
    for child in model.children():
        torch.distributed.fsdp.fully_shard(child, mesh=mesh)
    torch.distributed.fsdp.fully_shard(model, mesh=mesh)
    return model


def step_of(wrap: Callable[[nn.Module], nn.Module]) -> Callable[[], None]:
    """A training step of a wrapped model."""
    torch.manual_seed(0)
    width = 512
    model = wrap(nn.Sequential(*(block(width) for _ in range(6))))
    optimizer = torch.optim.AdamW(model.parameters())
    batch = torch.randn(256, width)

    def step() -> None:
        model(batch).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def window(step: Callable[[], None]) -> list[tuple[float, float]]:
    """Wall and CPU seconds of the steps of a window."""
    found = []
    for _ in range(STEPS):
        dist.barrier()
        wall, cpu = time.perf_counter(), time.process_time()
        step()
        found.append((time.perf_counter() - wall, time.process_time() - cpu))
    return found[1:]


def measure(step: Callable[[], None], tracer: Tracer) -> dict[str, float]:
    """Medians with and without tracing, by turns."""
    window(step)
    on: list[tuple[float, float]] = []
    off: list[tuple[float, float]] = []
    for _ in range(WINDOWS):
        off += window(step)
        session.start(tracer)
        on += window(step)
        session.stop()
    wall_off, cpu_off = (statistics.median(each) for each in zip(*off, strict=True))
    wall_on, cpu_on = (statistics.median(each) for each in zip(*on, strict=True))
    lines = [orjson.loads(line) for line in (tracer.directory / "rank-0.jsonl").open("rb")]
    collectives = sum("span" in line and line["span"][9] is not None for line in lines)
    size = (tracer.directory / "rank-0.jsonl").stat().st_size
    return {
        "off_ms": wall_off * 1e3,
        "wall": wall_on / wall_off,
        "cpu": cpu_on / cpu_off,
        "bytes": size / collectives * 1000,
        "each_ms": (cpu_on - cpu_off) * 1e3 * WINDOWS * STEPS / collectives,
    }


def rank(number: int, directory: Path) -> None:
    """All cases as one rank; rank 0 leaves what it found."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    store = _dist.FileStore(str(directory / "store"), RANKS)
    dist.init_process_group("gloo", store=store, rank=number, world_size=RANKS)
    found = {}
    for wrap in (ddp, fsdp2):
        place = directory / wrap.__name__
        place.mkdir(exist_ok=True)
        # The other rank's file is not read: one place a rank.
        tracer = open_tracer(place, number, {})
        found[wrap.__name__] = measure(step_of(wrap), tracer)
    if number == 0:
        (directory / "found.json").write_bytes(orjson.dumps(found))
    dist.barrier()


def main() -> int:
    """Print the figures; 1 if one of them misses its bar."""
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        pids = []
        for number in range(RANKS):
            pid = os.fork()
            if pid == 0:
                rank(number, directory)
                os._exit(0)
            pids.append(pid)
        codes = [os.waitpid(pid, 0)[1] for pid in pids]
        if any(codes):
            return 1
        found = orjson.loads((directory / "found.json").read_bytes())
    print(f"load {os.getloadavg()[0]:.1f}")
    missed = False
    for case, figures in found.items():
        print(
            f"{case}: step {figures['off_ms']:.1f} ms; traced, it takes {figures['wall']:.3f} of its"
            f" time and {figures['cpu']:.3f} of its CPU time (bar {MOST}),"
            f" {figures['each_ms']:.2f} ms of CPU a collective;"
            f" {figures['bytes'] / 1e3:.0f} kB per 1,000 collectives (bar {MOST_BYTES / 1e3:.0f})"
        )
        missed |= min(figures["wall"], figures["cpu"]) > MOST or figures["bytes"] > MOST_BYTES
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
