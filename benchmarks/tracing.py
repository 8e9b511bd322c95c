"""What tracing costs a step, on and off by turns in one run, two ranks on this CPU.

DDP and FSDP2 at a long step and at one of about 100 ms, and a plan that is executed, with its record and
with one that keeps nothing; DDP with small buckets besides, to see what a collective costs.
`python benchmarks/tracing.py [CASE…]` prints, for each, the median over pairs of windows that lie beside
each other, with the range in which that median lies in 9 of 10 resamplings, the load of the machine, and
the bytes that a rank writes per 1,000 ops; it exits 1 if a bar is missed.
"""

from __future__ import annotations

import itertools
import os
import statistics
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch
import torch.distributed as dist
import torch.distributed.fsdp
from torch import nn

ROOT: Final = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "runtime")]

from benchmarks.ratio import Ratio, ratio_of  # noqa: E402 - the repository may not be installed
from zerosim.scenario import load_scenario  # noqa: E402 - same
from zerosim_runtime.execute import train_step  # noqa: E402 - same
from zerosim_runtime.memory import Memory  # noqa: E402 - same
from zerosim_runtime.model import batch_of  # noqa: E402 - same
from zerosim_runtime.rank import make_trainer, open_rank  # noqa: E402 - same
from zerosim_runtime.recorder import Row  # noqa: E402 - same
from zerosim_runtime.tracing import session  # noqa: E402 - same
from zerosim_runtime.tracing.tracer import open_tracer  # noqa: E402 - same

_dist: Final[Any] = dist
RANKS: Final = 2
LONG, SHORT = 24, 72
"""How often a window with the record lies beside one without, of long steps and of short ones."""
STEPS: Final = 4
"""Steps of a window; the first one is warm-up."""
MOST: Final = 1.05
MOST_BYTES: Final = 1_000_000

Switch = Callable[[], Callable[[], None]]
"""Begins to record; returns what ends that."""


@dataclass(frozen=True, slots=True)
class Case:
    """A `step` that is measured with the record that `switch` makes, and without; into `directory`.

    `bar`: what its ratios may be; None: it tells what a collective costs, and nobody trains like that.
    """

    step: Callable[[], None]
    switch: Switch
    directory: Path
    pairs: int = SHORT
    bar: float | None = MOST


def block(width: int) -> nn.Module:
    """Some layers of a transformer's size, without its attention."""
    return nn.Sequential(
        nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
    )


def ddp(model: nn.Module) -> nn.Module:
    """Buckets of DDP's own choice."""
    return nn.parallel.DistributedDataParallel(model)


def small(model: nn.Module) -> nn.Module:
    """Buckets of 1 MB: an all-reduce in each few milliseconds of computing."""
    return nn.parallel.DistributedDataParallel(model, bucket_cap_mb=1)


def fsdp2(model: nn.Module) -> nn.Module:
    """Each block is gathered by itself."""
    mesh = _dist.init_device_mesh("cpu", (dist.get_world_size(),))
    for child in model.children():
        torch.distributed.fsdp.fully_shard(child, mesh=mesh)
    torch.distributed.fsdp.fully_shard(model, mesh=mesh)
    return model


def traced(
    wrap: Callable[[nn.Module], nn.Module], width: int, rows: int
) -> Callable[[Path, int], Case]:
    """A wrapped model that trains; `rows` of a batch and the layers' `width` set the step's length."""

    def make(directory: Path, number: int) -> Case:
        torch.manual_seed(0)
        model = wrap(nn.Sequential(*(block(width) for _ in range(6))))
        optimizer = torch.optim.AdamW(model.parameters())
        batch = torch.randn(rows, width)
        tracer = open_tracer(directory, number, {})

        def step() -> None:
            model(batch).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()

        def switch() -> Callable[[], None]:
            session.start(tracer)
            return session.stop

        pairs, bar = LONG if width > 256 else SHORT, None if wrap is small else MOST
        return Case(step, switch, directory, pairs, bar)

    return make


class Silent:
    """A recorder that keeps nothing."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory

    def begin(self, op: int) -> Row:
        """A row that nobody reads."""
        return Row(op, 0)

    def moment(self) -> int:
        """No time."""
        return 0


def executed(directory: Path, _: int) -> Case:
    """A plan of ZeRO-3 as `zerosim trace SCENARIO` carries it out."""
    sizes = [f"world_size={RANKS}", "layers=6", "hidden=512", "micro_batch=128"]
    steps = itertools.count(1)
    n_steps = (1 + 2 * SHORT) * STEPS
    scenario = load_scenario("lesson-zero3", [*sizes, f"run.steps={n_steps}"])
    recorder = open_rank(directory, "gloo")
    trainer = make_trainer(scenario, recorder, backend="gloo", timeout_s=60)
    rank, memory = trainer.execution.rank, recorder.memory
    silent: Any = Silent(memory)
    channels = rank.communicators.values()
    watchers = {name: list(channel.watchers) for name, channel in rank.communicators.items()}
    place = {"seed": 0, "rank": dist.get_rank(), "step": 1, "micro_batch": 0}
    batch = batch_of(scenario.workload, trainer.dtype, trainer.device, **place)

    def off() -> None:
        recorder.flush()
        rank.recorder = silent
        for channel in channels:
            channel.watchers.clear()

    def switch() -> Callable[[], None]:
        rank.recorder = recorder
        for name, channel in rank.communicators.items():
            channel.watchers[:] = watchers[name]
        return off

    def step() -> None:
        number = next(steps)
        train_step(trainer.execution, trainer.model, [batch], number)
        if rank.recorder is recorder:
            recorder.write(step=number, loss=0.0)
            recorder.flush()
        memory.changes.clear()

    off()
    return Case(step, switch, directory)


CASES: Final = {
    "DDP, long": traced(ddp, 512, 256),
    "FSDP2, long": traced(fsdp2, 512, 256),
    "DDP, short": traced(ddp, 256, 256),
    "DDP, short, small buckets": traced(small, 256, 256),
    "FSDP2, short": traced(fsdp2, 256, 128),
    "a plan": executed,
}


def window(step: Callable[[], None]) -> tuple[float, float]:
    """Wall and CPU seconds of the steps of a window, medians."""
    found = []
    for _ in range(STEPS):
        dist.barrier()
        wall, cpu = time.perf_counter(), time.process_time()
        step()
        found.append((time.perf_counter() - wall, time.process_time() - cpu))
    walls, cpus = zip(*found[1:], strict=True)
    return statistics.median(walls), statistics.median(cpus)


def recorded(case: Case) -> tuple[float, float]:
    """A window with the record."""
    end = case.switch()
    found = window(case.step)
    end()
    return found


@dataclass(frozen=True, slots=True)
class Figures:
    """What a case came to: milliseconds without a record, ratios with it, ops a step, bytes a 1,000 ops."""

    off_ms: float
    wall: Ratio
    cpu: Ratio
    ops: float
    nbytes: float
    bar: float | None

    @property
    def missed(self) -> bool:
        """Whether one of them is past its bar."""
        slow = self.bar is not None and max(self.wall.value, self.cpu.value) > self.bar
        return slow or self.nbytes > MOST_BYTES

    def __str__(self) -> str:
        bar = "no bar" if self.bar is None else f"bar {self.bar}"
        return (
            f"step {self.off_ms:.1f} ms, {self.ops:.0f} ops; with the record {self.wall} of its time,"
            f" {self.cpu} of its CPU time ({bar}); {self.nbytes / 1e3:.0f} kB per 1,000 ops"
            f" (bar {MOST_BYTES / 1e3:.0f})"
        )


def measure(case: Case) -> Figures:
    """Pairs of windows with and without a record, by turns."""
    window(case.step)
    pairs = []
    for pair in range(case.pairs):
        before = recorded(case) if pair % 2 else None
        off = window(case.step)
        pairs.append((before or recorded(case), off))
    wall, cpu = ([(on[i], off[i]) for on, off in pairs] for i in (0, 1))
    file = case.directory / f"rank-{dist.get_rank()}.jsonl"
    ops = sum(line.startswith((b'{"span"', b'{"row"')) for line in file.open("rb"))
    return Figures(
        off_ms=statistics.median(without for _, without in wall) * 1e3,
        wall=ratio_of(wall),
        cpu=ratio_of(cpu),
        ops=ops / case.pairs / STEPS,
        nbytes=file.stat().st_size / ops * 1000,
        bar=case.bar,
    )


def rank(number: int, directory: Path, names: list[str]) -> bool:
    """All cases as one rank; rank 0 says what it found, and whether a bar is missed."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    store = _dist.FileStore(str(directory / "store"), RANKS)
    dist.init_process_group("gloo", store=store, rank=number, world_size=RANKS)
    missed = False
    for name in names:
        place = directory / name
        place.mkdir(exist_ok=True)
        figures = measure(CASES[name](place, number))
        missed |= figures.missed
        if number == 0:
            print(f"{name}: {figures}; load {os.getloadavg()[0]:.1f}", flush=True)
    dist.barrier()
    return missed and number == 0


def start(number: int, directory: Path, names: list[str]) -> int:
    """Fork a rank; returns its pid. It ends with 1 if a bar is missed, or it fails."""
    pid = os.fork()
    if pid == 0:
        missed = True
        try:
            missed = rank(number, directory, names)
        except BaseException:  # noqa: BLE001 - a forked child must end here
            traceback.print_exc()
        os._exit(int(missed))
    return pid


def main() -> int:
    """Print the figures; 1 if one of them misses its bar."""
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    names = [name for name in CASES if name in sys.argv] or list(CASES)
    with tempfile.TemporaryDirectory() as directory:
        pids = [start(number, Path(directory), names) for number in range(RANKS)]
        codes = [os.waitpid(pid, 0)[1] for pid in pids]
    return int(any(codes))


if __name__ == "__main__":
    sys.exit(main())
