"""Collectives in labs of several shapes, and what the interfaces counted: `wire_program.py REPORT`.

One process imports torch; each rank is a fork of it that enters its node's namespace.
"""

from __future__ import annotations

import ctypes
import os
import sys
import tempfile
import time
import traceback
from datetime import timedelta
from pathlib import Path
from typing import Any

import orjson
import torch
import torch.distributed as dist

from zerosim.kinds import Kind
from zerosim_runtime.collectives import communicator
from zerosim_runtime.lab.counters import read_counts
from zerosim_runtime.lab.links import Lab, open_lab
from zerosim_runtime.lab.shape import Shape

SHAPES = ((2, 1), (3, 1), (4, 1), (2, 2))
"""Nodes and ranks a node."""
ELEMENTS = 2**20 * 3 // 2
"""Of the full buffer: 6 MiB, a multiple of 2, 3 and 4."""
RATE = 100e6
CASES = (
    (Kind.ALL_GATHER, "native"),
    (Kind.ALL_REDUCE, "native"),
    (Kind.REDUCE_SCATTER, "native"),
    (Kind.REDUCE_SCATTER, "all-to-all"),
)


def main(report: Path) -> None:
    torch.set_num_threads(1)
    sys.setswitchinterval(1e-4)
    found = {}
    for nodes, per_node in SHAPES:
        with open_lab(Shape(nodes, per_node, RATE)) as lab:
            found[f"{nodes}x{per_node}"] = run(lab)
    report.write_bytes(orjson.dumps(found))


def run(lab: Lab) -> dict[str, list[dict[str, float]]]:
    """By case: what each node sent and kept inside, in payload bytes over the buffer's."""
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        pids = [fork(lab, rank, place) for rank in range(lab.shape.world_size)]
        found: dict[str, list[dict[str, float]]] = {}
        # The ranks wait in turn for each case to be begun, so that the links are quiet in between.
        for index, (kind, scatter) in enumerate(CASES):
            await_all(place, f"ready-{index}", lab.shape.world_size)
            before = [read_counts(node) for node in lab.nodes]
            (place / f"go-{index}").touch()
            await_all(place, f"done-{index}", lab.shape.world_size)
            time.sleep(0.05)
            after = [read_counts(node) for node in lab.nodes]
            found[f"{kind.value}, {scatter}"] = [
                {
                    "sent": last.since(first).sent.payload / (4 * ELEMENTS),
                    "received": last.since(first).received.payload / (4 * ELEMENTS),
                    "inside": last.since(first).inside.payload / (4 * ELEMENTS),
                    "headers": last.since(first).sent.nbytes / last.since(first).sent.payload,
                }
                for first, last in zip(before, after, strict=True)
            ]
        (place / "end").touch()
        assert all(os.waitpid(pid, 0)[1] == 0 for pid in pids), "a rank failed"
        return found


def fork(lab: Lab, rank: int, place: Path) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        enter(lab.nodes[rank // lab.shape.ranks_per_node].pid, user="--user" in lab.switch.prefix)
        train(lab.shape.world_size, rank, place)
        code = 0
    except BaseException:  # noqa: BLE001 - it is a process of its own
        traceback.print_exc()
    os._exit(code)


def enter(pid: int, *, user: bool) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    for kind in (*(("user",) if user else ()), "net"):
        with Path(f"/proc/{pid}/ns/{kind}").open("rb") as namespace:
            assert libc.setns(namespace.fileno(), 0) == 0, os.strerror(ctypes.get_errno())


def train(n_ranks: int, rank: int, place: Path) -> None:
    os.environ["GLOO_SOCKET_IFNAME"] = "uplink"
    dist.init_process_group(
        "gloo",
        init_method=f"file://{place}/store",
        rank=rank,
        world_size=n_ranks,
        timeout=timedelta(seconds=60),
    )
    channels: dict[str, Any] = {s: communicator("gloo", 60, scatter=s) for _, s in CASES}
    for index, (kind, scatter) in enumerate(CASES):
        whole, row = torch.zeros(ELEMENTS), torch.ones(ELEMENTS // n_ranks)
        output, source = {
            Kind.ALL_GATHER: (whole, row),
            Kind.ALL_REDUCE: (whole, whole),
            Kind.REDUCE_SCATTER: (row, whole),
        }[kind]
        (place / f"ready-{index}-{rank}").touch()
        await_file(place / f"go-{index}")
        channels[scatter].issue(kind, "X", output, source).wait()
        (place / f"done-{index}-{rank}").touch()
    await_file(place / "end")


def await_all(place: Path, name: str, n_ranks: int) -> None:
    for rank in range(n_ranks):
        await_file(place / f"{name}-{rank}")


def await_file(path: Path) -> None:
    deadline = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < deadline, f"nobody wrote {path.name}"
        time.sleep(0.002)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
