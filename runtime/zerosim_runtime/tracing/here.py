"""Tracing from inside a script: `with tracing.trace("RUN"): train()`."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import orjson
import torch.distributed as dist

from zerosim.store import check_place, save_run
from zerosim_runtime.tracing import hook, rank
from zerosim_runtime.tracing.collect import PROGRAM_FILE, collect
from zerosim_runtime.tracing.command import told
from zerosim_runtime.tracing.keeping import parts_of
from zerosim_runtime.tracing.log import Log, read_logs
from zerosim_runtime.tracing.tracer import steps_of

_PATIENCE_S: Final = 30.0
"""How long rank 0 waits for the others to finish, before it leaves the merging to `zerosim merge`."""
_POLL_S: Final = 0.1


@contextmanager
def traced(run: str | os.PathLike[str], steps: str | None = None) -> Iterator[None]:
    """Trace what this rank does inside; rank 0 stores the run `run` afterwards.

    Every rank must enter, before or after `init_process_group`. Ranks write into `RUN.parts`; if not all
    of them wrote there (several hosts) that stays, and `zerosim merge` makes the run. Inside a program that
    `zerosim trace` has started, it does nothing. Raises RunError for a place that cannot be written.
    """
    if hook.DIRECTORY_VARIABLE in os.environ:
        yield
        return
    out = Path(run)
    check_place(out)
    steps_of(steps)
    parts = parts_of(out).absolute()
    parts.mkdir(parents=True, exist_ok=True)
    os.environ[hook.DIRECTORY_VARIABLE] = str(parts)
    if steps is not None:
        os.environ[hook.STEPS_VARIABLE] = steps
    hook.install()
    if dist.is_initialized():
        rank.begin(parts)
    outcome = ("finished", "")
    try:
        yield
    except BaseException as error:
        outcome = ("failed", f"{type(error).__name__}: {error}")
        raise
    finally:
        os.environ.pop(hook.DIRECTORY_VARIABLE, None)
        os.environ.pop(hook.STEPS_VARIABLE, None)
        mine = rank.finish(*outcome)
        if mine == 0:
            _store(parts, out, wait=outcome[0] == "finished")


def _store(parts: Path, out: Path, *, wait: bool) -> None:
    """Make the run if every rank has finished in `parts` soon; else say how to make it."""
    deadline = time.monotonic() + (_PATIENCE_S if wait else 0)
    while not _all_ended(logs := read_logs(parts)):
        if time.monotonic() > deadline:
            sys.stderr.write(
                f"zerosim: not all ranks have finished in '{parts}': bring their files together, and "
                f"`zerosim merge {parts} -o {out}` makes the run\n"
            )
            return
        time.sleep(_POLL_S)
    (parts / PROGRAM_FILE).write_bytes(orjson.dumps({"name": out.name, "argv": told(sys.argv)}))
    failed = next((log for log in logs if log.status != "finished"), None)
    failure = None if failed is None else f"rank {failed.rank} {failed.status} ({failed.message})"
    save_run(collect(parts, failure=failure), out)
    shutil.rmtree(parts, ignore_errors=True)


def _all_ended(logs: tuple[Log, ...]) -> bool:
    return len(logs) == int(logs[0].header["world_size"]) and all(log.status for log in logs)
