"""Runs scripts as two ranks each, traced and untraced, all from one process that has imported torch.

`python many.py DIRECTORY SCRIPT…`: `DIRECTORY/NAME/traced` gets the records of ranks, and
`DIRECTORY/NAME/{traced,plain}-RANK.out` what they printed. To import torch once is most of the time
saved; each rank is a fork, whose `init_process_group` begins the trace as in a process of its own.
"""

from __future__ import annotations

import os
import runpy
import socket
import sys
from pathlib import Path

import torch._dynamo
import torch.distributed.fsdp
import torch.distributed.optim  # noqa: F401 - what scripts import is imported once, before the forks

N_RANKS = 2


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def become_rank(rank: int, port: int, directory: Path, script: str, *, traced: bool) -> None:
    os.environ.pop("ZEROSIM_TRACE_DIR", None)
    if traced:
        (directory / "traced").mkdir(parents=True, exist_ok=True)
        os.environ["ZEROSIM_TRACE_DIR"] = str(directory / "traced")
    os.environ |= {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(N_RANKS),
        "LOCAL_WORLD_SIZE": str(N_RANKS),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }
    name = f"{'traced' if traced else 'plain'}-{rank}.out"
    with (directory / name).open("wb") as output:
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
    sys.argv = [script]
    runpy.run_path(script, run_name="__main__")


def main(directory: Path, scripts: list[str]) -> None:
    for script in scripts:
        place = directory / Path(script).stem
        place.mkdir()
        for traced in (False, True):
            port = free_port()
            pids = []
            for rank in range(N_RANKS):
                pid = os.fork()
                if pid == 0:
                    become_rank(rank, port, place, script, traced=traced)
                    return
                pids.append(pid)
            for pid in pids:
                os.waitpid(pid, 0)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
