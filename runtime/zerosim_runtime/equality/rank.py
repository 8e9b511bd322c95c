"""The ranks of a batch of cases: they run each case, and leave what they saw as one file a rank."""

from __future__ import annotations

import os
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import orjson
import torch
import torch.distributed as dist

from zerosim_runtime.equality.case import Case
from zerosim_runtime.equality.families import family_of
from zerosim_runtime.equality.seen import row_to
from zerosim_runtime.watch import watch

BATCH_FILE: Final = "batch.json"
_TIMEOUT: Final = timedelta(seconds=60)


def main(directory: Path) -> int:
    """Run the cases that `directory` names, in order, up to the first that fails; the exit code."""
    named = orjson.loads((directory / BATCH_FILE).read_bytes())
    cases = [_case(family, name) for family, name in named]
    torch.set_num_threads(1)
    # Engines warn about what is asked of them on purpose, such as unused-parameter searches.
    warnings.simplefilter("ignore")
    if cases[0].fake:
        done = [_observed(directory, case, rank, _fake) for case in cases for rank in case.ranks]
        return 0 if all(done) else 1
    watch(directory, [])
    dist.init_process_group("gloo", timeout=_TIMEOUT)
    for case in cases:
        if not _observed(directory, case, dist.get_rank(), _joined):
            return 1
        dist.barrier()
    dist.destroy_process_group()
    return 0


def _case(family: str, name: str) -> Case:
    return next(case for case in family_of(family).cases if case.name == name)


def seen_file(directory: Path, case: Case, rank: int) -> Path:
    """Where a rank leaves what it saw in a case: its rows, or why there are none."""
    return directory / f"{case.family}.{case.name}.{rank}.json"


def _observed(directory: Path, case: Case, rank: int, group: Callable[[Case, int], Any]) -> bool:
    found: dict[str, Any]
    try:
        with group(case, rank):
            rows = family_of(case.family).observe(case, rank)
        found = {"rows": [row_to(row) for row in rows]}
    except Exception as error:  # noqa: BLE001 - whatever the engine raises is the finding
        traceback.print_exception(error)
        found = {"error": f"{type(error).__name__}: {error}"}
    seen_file(directory, case, rank).write_bytes(orjson.dumps(found))
    return "rows" in found


@contextmanager
def _joined(_: Case, __: int) -> Iterator[None]:
    """The group that torchrun's ranks have joined already."""
    yield


@contextmanager
def _fake(case: Case, rank: int) -> Iterator[None]:
    """A group of torch's fake backend: collectives return at once and move nothing."""
    from torch.testing._internal.distributed.fake_pg import FakeStore  # noqa: PLC0415 - heavy, only here

    dist.init_process_group("fake", rank=rank, world_size=case.world_size, store=FakeStore())
    try:
        yield
    finally:
        dist.destroy_process_group()


if __name__ == "__main__":
    code = main(Path(sys.argv[1]))
    sys.stdout.flush()
    sys.stderr.flush()
    # Threads that wait for a lost peer would keep the interpreter from ending.
    os._exit(code)
