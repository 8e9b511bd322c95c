"""One rank of the proof: it judges the trainings that a file lists, and writes a line for each."""

from __future__ import annotations

import os
import sys
import time
import traceback
import warnings
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import orjson
import torch
import torch.distributed as dist

from zerosim_runtime.collectives import start_group
from zerosim_runtime.watch import watch
from zerosim_runtime.zero.proof.cases import Training
from zerosim_runtime.zero.proof.judge import Judge
from zerosim_runtime.zero.proof.models import here

TRAININGS_FILE: Final = "trainings.json"
_TIMEOUT_S: Final = 60.0


def main(directory: Path, checkpoints: Path) -> int:
    """Judge in order, up to the first training that fails on this rank, or until time is up; the exit code."""
    watch(directory, [])
    sys.setswitchinterval(1e-4)
    torch.set_num_threads(1)
    # DDP warns where no parameter is unused, as is so in most trainings.
    warnings.simplefilter("ignore")
    asked = orjson.loads((directory / TRAININGS_FILE).read_bytes())
    _start(asked["device"])
    until = time.monotonic() + asked["seconds"]
    trainings = [Training(**fields) for fields in asked["trainings"]]
    judge = Judge(checkpoints)
    with lines_file(directory, dist.get_rank()).open("wb") as file:
        for training in trainings:
            if _of_any(time.monotonic() > until):
                break
            line = _line(judge, training)
            file.write(orjson.dumps(line) + b"\n")
            file.flush()
            if "error" in line and not _all_failed():
                return 1
    dist.destroy_process_group()
    return 0


def _start(device: str) -> None:
    """Join the others; on a GPU of its own, where the reference, torch's DDP, talks by NCCL."""
    if device == "cpu":
        start_group(_TIMEOUT_S)
        return
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    torch.backends.cuda.matmul.allow_tf32 = False
    dist.init_process_group("nccl", timeout=timedelta(seconds=_TIMEOUT_S))


def _all_failed() -> bool:
    """Whether a training failed on all ranks alike, so that they can go on; else one of them waits in vain."""
    return _how_many(holds=True) == dist.get_world_size()


def _of_any(holds: bool) -> bool:
    """Whether it holds on any rank: all ranks get the same answer."""
    return _how_many(holds=holds) > 0


def _how_many(*, holds: bool) -> int:
    flag = torch.tensor([int(holds)]).to(here())
    dist.all_reduce(flag)
    return int(flag.item())


def lines_file(directory: Path, rank: int) -> Path:
    """Where a rank writes its verdicts."""
    return directory / f"verdicts-{rank}.jsonl"


def _line(judge: Judge, training: Training) -> dict[str, Any]:
    try:
        return asdict(judge.judge(training))
    except Exception as error:  # noqa: BLE001 - whatever is raised is the finding
        traceback.print_exception(error)
        return {"error": f"{type(error).__name__}: {error}"}


if __name__ == "__main__":
    code = main(Path(sys.argv[1]), Path(sys.argv[2]))
    sys.stdout.flush()
    sys.stderr.flush()
    # Threads that wait for a lost peer would keep the interpreter from ending.
    os._exit(code)
