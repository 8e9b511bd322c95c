"""What two ranks do in test_guard: in each case rank 1 errs once, and both write down what they were told."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import orjson
import torch
import torch.distributed as dist

from zerosim.errors import RuntimeFailedError
from zerosim.kinds import Kind
from zerosim_runtime.collectives import Communicator, communicator, start_group
from zerosim_runtime.guard import Guard, open_guard

USUAL = ("a", "b", "c")
ERRS = 3
"""The step in which rank 1 errs."""


@dataclass(frozen=True)
class Case:
    """What rank 1 gathers in that step instead of the usual, and elements of each row of 'b'."""

    units: tuple[str, ...] = USUAL
    row: int = 4


CASES = {
    "same": Case(),
    "swapped": Case(("a", "c", "b")),
    "dropped": Case(("a", "c")),
    "fewer": Case(("a",)),
    "shape": Case(row=5),
}


@dataclass(frozen=True)
class Told:
    """How a case ended on this rank: its step, the error's class and words, and the seconds it took."""

    step: int
    error: str
    words: str
    seconds: float


def judge(case: Case) -> Told:
    gather, reduce = communicator("gloo", 20), communicator("gloo", 20)
    guard = open_guard({"gather": gather, "reduce": reduce}, 20)
    assert guard is not None
    step, begun = 0, 0.0
    try:
        for step in range(ERRS + 1):
            begun = time.monotonic()
            errs = dist.get_rank() == 1 and step == ERRS
            _step(case if errs else Case(), gather, guard)
    except RuntimeFailedError as error:
        name, words = type(error).__name__, str(error)
        return Told(step, name, words, time.monotonic() - begun)
    guard.close()
    gather.close()
    reduce.close()
    return Told(step, "", "", time.monotonic() - begun)


def _step(case: Case, gather: Communicator, guard: Guard) -> None:
    for unit in case.units:
        row = torch.ones(case.row if unit == "b" else 4)
        whole = torch.zeros(dist.get_world_size() * row.numel())
        gather.issue(Kind.ALL_GATHER, f"AG{unit}", whole, row).wait()
    guard.settle()


def main(directory: Path) -> None:
    start_group(60)
    told: dict[str, Told] = {}
    for name, case in CASES.items():
        told[name] = judge(case)
        dist.barrier()
    (directory / f"report-{dist.get_rank()}.json").write_bytes(orjson.dumps(told))
    dist.barrier()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
    # Collectives that will never end keep the interpreter from ending.
    os._exit(0)
