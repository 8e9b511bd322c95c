"""Observes DeepSpeed in all its cases and writes the recordings: `python -m zerosim_runtime.equality.deepspeed_record`.

Run it with the Python of a virtual environment that has DeepSpeed (docs/equality.md), giving the
directory to write to and, if not all are wanted, the names of cases.
"""

from __future__ import annotations

import logging
import os
import socket
import sys
import tempfile
import warnings
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Final

import orjson
import torch
from torch import distributed as dist
from torch import multiprocessing

from zerosim_runtime.equality import deepspeed3_cases, deepspeed_cases
from zerosim_runtime.equality.case import Case
from zerosim_runtime.equality.deepspeed import ENVIRONMENT, observe
from zerosim_runtime.equality.recording import Recording, write_recording
from zerosim_runtime.equality.seen import row_from, row_to

CASES: Final = (*deepspeed_cases.CASES, *deepspeed3_cases.CASES)


def record(cases: Sequence[Case], directory: Path) -> list[Path]:
    """Observe the cases on real ranks (one launch for each number of ranks) and write them down."""
    written: list[Path] = []
    versions = {name: version(name) for name in ("deepspeed", "torch")}
    for n_ranks in sorted({case.world_size for case in cases}):
        chosen = [case for case in cases if case.world_size == n_ranks]
        with tempfile.TemporaryDirectory() as scratch:
            arguments = (n_ranks, _free_port(), chosen, scratch)
            multiprocessing.spawn(_rank, arguments, nprocs=n_ranks)  # type: ignore[attr-defined, no-untyped-call] # torch has no types for it
            for case in chosen:
                parts = [Path(scratch, f"{case.name}.{rank}") for rank in range(n_ranks)]
                seen = [tuple(map(row_from, orjson.loads(p.read_bytes()))) for p in parts]
                written.append(write_recording(Recording(case, versions, tuple(seen)), directory))
    return written


def _rank(rank: int, n_ranks: int, port: int, cases: Sequence[Case], scratch: str) -> None:
    os.environ.update(ENVIRONMENT, RANK=str(rank), WORLD_SIZE=str(n_ranks))
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=n_ranks)
    for case in cases:
        rows = [row_to(row) for row in observe(case, rank)]
        Path(scratch, f"{case.name}.{rank}").write_bytes(orjson.dumps(rows))
    dist.destroy_process_group()


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def main(arguments: Sequence[str]) -> int:
    """Write the recordings of the named cases, or of all; 2 for a name that is no case."""
    if not arguments:
        sys.stderr.write("give a directory to write to, and names of cases if not all\n")
        return 2
    directory, names = Path(arguments[0]), set(arguments[1:])
    unknown = names - {case.name for case in CASES}
    if unknown:
        sys.stderr.write(f"no case {', '.join(sorted(unknown))}\n")
        return 2
    directory.mkdir(parents=True, exist_ok=True)
    for path in record([c for c in CASES if not names or c.name in names], directory):
        sys.stdout.write(f"{path}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
