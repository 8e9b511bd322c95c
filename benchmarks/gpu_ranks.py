"""One rank of `gpu_check.py`: streams, events, memory and rates, as its own communicators see them."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import orjson
import torch
import torch.distributed as dist

from zerosim.collectives import bus_factor
from zerosim.kinds import Kind
from zerosim_runtime.collectives import Communicator, Handle, communicator, start_group
from zerosim_runtime.cuda import stamps_of
from zerosim_runtime.rank import device_of
from zerosim_runtime.zero import Options, shard

Row = tuple[str, str, str]
MIB = 2**20
NO_GPU = "not checked", "needs a GPU"
ALONE = "not checked", "needs two GPUs: one rank sends nothing"


def main(backend: str, out: Path) -> None:
    """Run all checks with the ranks that torchrun started; the first writes `out`."""
    start_group(120.0)
    device = device_of(backend)
    gather = communicator(backend, 120.0)
    rows: list[Row] = []
    for check in (clock, moved, waits, kernels, overlap, rates, compute, memory):
        dist.barrier()
        try:
            rows += list(check(device, gather))
        except (RuntimeError, ValueError, KeyError) as error:
            rows.append((check.__name__, "FAIL", f"{type(error).__name__}: {error}"[:200]))
    gather.close()
    if dist.get_rank() == 0:
        known = [dict(zip(("check", "verdict", "figure"), row, strict=True)) for row in rows]
        out.write_bytes(orjson.dumps(known))
    dist.destroy_process_group()


def clock(device: torch.device, _: Communicator) -> Iterator[Row]:
    """An event on an idle GPU has the host's time."""
    if device.type != "cuda":
        yield "events on the host's clock", *NO_GPU
        return
    stamps, worst = stamps_of(device), 0
    for _try in range(100):
        torch.cuda.synchronize(device)
        before = time.perf_counter_ns()
        stamp = stamps()
        torch.cuda.synchronize(device)
        after = time.perf_counter_ns()
        at = stamp.read() or 0
        worst = max(worst, before - at, at - after)
    figure = f"at most {worst / 1e3:.1f} µs outside, bridge good to {stamps.bridge.error_ns / 1e3:.1f} µs"
    yield "events on the host's clock", "pass" if worst < 50_000 else "FAIL", figure


def moved(device: torch.device, channel: Communicator) -> Iterator[Row]:
    """What collectives leave is right."""
    n, rank = dist.get_world_size(), dist.get_rank()
    own = torch.full((1000,), float(rank + 1), device=device)
    whole = torch.zeros(n * 1000, device=device)
    channel.issue(Kind.ALL_GATHER, "AG", whole, own).wait()
    row = torch.zeros(1000, device=device)
    channel.issue(Kind.REDUCE_SCATTER, "RS", row, whole.clone()).wait()
    total = own.clone()
    channel.issue(Kind.ALL_REDUCE, "AR", total, total).wait()
    right = torch.cat([torch.full((1000,), float(r + 1), device=device) for r in range(n)])
    holds = (
        torch.equal(whole, right)
        and torch.equal(row, torch.full_like(row, n * float(rank + 1)))
        and torch.equal(total, torch.full_like(total, n * (n + 1) / 2))
    )
    yield "all-gather, reduce-scatter, all-reduce", "pass" if holds else "FAIL", f"{n} ranks"


def waits(device: torch.device, channel: Communicator) -> Iterator[Row]:
    """To wait holds up the stream, not the host."""
    if device.type != "cuda":
        yield "a wait leaves the host alone", *NO_GPU
        return
    busy = torch.randn(8192, 8192, device=device)
    _matmuls(busy, 20)
    handle = _gather(channel, device, 4 * MIB)
    before = time.perf_counter_ns()
    handle.wait()
    host = time.perf_counter_ns() - before
    handle.done.wait()
    took = (handle.end_ns or 0) - handle.issued_ns
    figure = f"host {host / 1e3:.0f} µs, issue to end {took / 1e3:.0f} µs"
    yield "a wait leaves the host alone", "pass" if host < took / 4 else "FAIL", figure


def kernels(device: torch.device, channel: Communicator) -> Iterator[Row]:
    """Event times beside the kernels that Kineto saw, and the stream that they ran on."""
    if device.type != "cuda":
        yield "event times = Kineto's kernels", *NO_GPU
        return
    if dist.get_world_size() == 1:
        yield "event times = Kineto's kernels", *ALONE
        return
    _gather(channel, device, 64 * MIB).done.wait()
    kinds = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=kinds) as profiler:
        handles = [_gather(channel, device, 64 * MIB) for _ in range(8)]
        for handle in handles:
            handle.done.wait()
        torch.cuda.synchronize(device)
    seen = [e for e in _events(profiler) if "ncclDevKernel" in str(e.get("name"))]
    took = median((h.end_ns or 0) - (h.start_ns or 0) for h in handles) / 1e3
    theirs = median(float(e["dur"]) for e in seen)
    figure = f"{len(seen)} kernels of {theirs:.0f} µs, events {took:.0f} µs"
    close = len(seen) == len(handles) and abs(took - theirs) <= max(20.0, 0.1 * theirs)
    yield "event times = Kineto's kernels", "pass" if close else "FAIL", figure
    streams = {e.get("args", {}).get("stream") for e in seen}
    mine = {channel.stream.stream_id} if channel.stream is not None else set()
    yield (
        "collectives run on one side stream",
        "pass" if len(streams) == 1 else "FAIL",
        (f"Kineto says {streams}, ours is {mine}"),
    )


def overlap(device: torch.device, channel: Communicator) -> Iterator[Row]:
    """How much of an all-gather hides behind matrix products."""
    if device.type != "cuda" or dist.get_world_size() == 1:
        yield "overlap", *(NO_GPU if device.type != "cuda" else ALONE)
        return
    a = torch.randn(8192, 8192, device=device, dtype=torch.bfloat16)
    size = 512 * MIB
    alone = _seconds(device, lambda: _matmuls(a, 8))
    sent = _seconds(device, lambda: _gather(channel, device, size).wait())

    def both() -> None:
        handle = _gather(channel, device, size)
        _matmuls(a, 8)
        handle.wait()

    together = _seconds(device, both)
    hidden = (alone + sent - together) / min(alone, sent)
    yield (
        "overlap of an all-gather with matmuls",
        "seen",
        (
            f"{hidden:.0%} hidden ({alone * 1e3:.1f} + {sent * 1e3:.1f} ms, together {together * 1e3:.1f})"
        ),
    )


def rates(device: torch.device, channel: Communicator) -> Iterator[Row]:
    """Bus bandwidth of each collective by size."""
    n = dist.get_world_size()
    if n == 1:
        yield "bus bandwidth", *ALONE
        return
    sizes = (1, 16, 256, 1024) if device.type == "cuda" else (1, 4)
    for kind in (Kind.ALL_GATHER, Kind.REDUCE_SCATTER, Kind.ALL_REDUCE):
        figures = []
        for mib in sizes:
            seconds = _seconds(device, partial(_collective, channel, device, kind, mib * MIB))
            busbw = mib * MIB / seconds * bus_factor(kind, n)
            figures.append(f"{mib} MiB {busbw / 1e9:.1f}")
        yield f"bus bandwidth of {kind}, GB/s", "seen", ", ".join(figures)


def compute(device: torch.device, _: Communicator) -> Iterator[Row]:
    """Matrix products, copies, an update: what the roofline needs."""
    gpu = device.type == "cuda"
    side, dtype = (8192, torch.bfloat16) if gpu else (512, torch.float32)
    a = torch.randn(side, side, device=device, dtype=dtype)
    seconds = _seconds(device, lambda: _matmuls(a, 4)) / 4
    yield f"matmul {side}, {dtype}", "seen", f"{2 * side**3 / seconds / 1e12:.2f} TFLOP/s"
    flat = torch.randn((256 if gpu else 8) * MIB, device=device)
    to = torch.empty_like(flat)
    copied = _seconds(device, lambda: to.copy_(flat))
    yield "copy", "seen", f"{2 * flat.numel() * 4 / copied / 1e9:.0f} GB/s"
    weight = torch.nn.Parameter(flat[: flat.numel() // 4].clone())
    weight.grad = torch.randn_like(weight)
    optimizer = torch.optim.AdamW([weight], fused=gpu)
    step = _seconds(device, optimizer.step)
    yield "AdamW", "seen", f"{weight.numel() * 28 / step / 1e9:.0f} GB/s of 28 bytes an element"


def memory(device: torch.device, _: Communicator) -> Iterator[Row]:
    """The library's ledger beside the allocator's peak, stage by stage."""
    for stage in (1, 2, 3):
        held, peak = _trained(device, stage)
        if device.type != "cuda":
            yield f"ledger of stage {stage}", "seen", f"{held / MIB:.1f} MiB at its peak"
            continue
        figure = f"ledger {held / MIB:.1f}, allocator {peak / MIB:.1f} MiB (with activations)"
        yield f"ledger of stage {stage}", "pass" if held <= peak else "FAIL", figure


def _trained(device: torch.device, stage: int) -> tuple[int, int]:
    """Bytes at the peak of the ledger, and of the allocator, over two steps of a perceptron."""
    torch.manual_seed(0)
    blocks = [
        torch.nn.Sequential(torch.nn.Linear(512, 2048), torch.nn.GELU(), torch.nn.Linear(2048, 512))
        for _ in range(4)
    ]
    model = torch.nn.Sequential(*blocks).to(device)
    before = torch.cuda.memory_allocated(device) if device.type == "cuda" else 0
    own = sum(p.numel() * p.element_size() for p in model.parameters())
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    with shard(model, Options(stage=stage)) as trainer:
        for _step in range(2):
            trainer.backward(model(torch.randn(64, 512, device=device)).square().mean())
            trainer.step()
        peak = trainer.ledger.peak
    if device.type != "cuda":
        return peak, peak
    return peak, torch.cuda.max_memory_allocated(device) - before + own


def _gather(channel: Communicator, device: torch.device, nbytes: int) -> Handle:
    row = torch.zeros(nbytes // 4 // dist.get_world_size(), device=device)
    whole = torch.empty(row.numel() * dist.get_world_size(), device=device)
    return channel.issue(Kind.ALL_GATHER, "AG", whole, row)


def _collective(channel: Communicator, device: torch.device, kind: Kind, nbytes: int) -> None:
    n = dist.get_world_size()
    row = torch.zeros(nbytes // 4 // n, device=device)
    whole = torch.zeros(row.numel() * n, device=device)
    pair = {Kind.ALL_GATHER: (whole, row), Kind.REDUCE_SCATTER: (row, whole)}.get(
        kind, (whole, whole)
    )
    channel.issue(kind, str(kind), *pair).wait()


def _matmuls(a: torch.Tensor, times: int) -> None:
    for _ in range(times):
        torch.matmul(a, a)


def _seconds(device: torch.device, what: Callable[[], object]) -> float:
    """The median of five, after two that do not count; the device is idle before and after."""
    took = []
    for _ in range(7):
        _sync(device)
        before = time.perf_counter()
        what()
        _sync(device)
        took.append(time.perf_counter() - before)
    return median(took[2:])


def _sync(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _events(profiler: torch.profiler.profile) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "trace.json"
        profiler.export_chrome_trace(str(path))
        events: list[dict[str, Any]] = orjson.loads(path.read_bytes())["traceEvents"]
    return events


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
