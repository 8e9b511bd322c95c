"""The parent of real ranks: starts torchrun, watches it, and turns what ranks wrote into a run."""

from __future__ import annotations

import fcntl
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

import zerosim
from zerosim.errors import RuntimeFailedError, ScenarioError, UnknownNameError
from zerosim.scenario import Scenario, plan_of
from zerosim.store import check_place, save_run
from zerosim.trace import Trace
from zerosim_runtime.assignment import LOCK_FILE, Assignment, write_assignment
from zerosim_runtime.capacity import available_bytes, check_memory
from zerosim_runtime.failure import describe_failure
from zerosim_runtime.limits import check_limits
from zerosim_runtime.merge import merge
from zerosim_runtime.records import read_record, steps_done

Progress = Callable[[str], None]
BACKENDS: Final = ("auto", "gloo", "nccl")
_POLL_S: Final = 0.1
_GRACE_S: Final = 15.0


def trace(
    scenario: Scenario,
    *,
    nproc: int,
    steps: int = 4,
    backend: str = "auto",
    out: Path | None = None,
    progress: Progress | None = None,
    timeout_s: float = 300.0,
    poison: bool = False,
) -> Trace:
    """Run a scenario on `nproc` real ranks of this machine, and return what they recorded.

    The run is stored as `out` if that is given, also when a rank fails: then as an unfinished one.
    `progress` is told in words. Raises InputError for what cannot be run,
    RuntimeFailedError if a rank dies; no process stays behind, whatever happens.
    """
    asked = as_real(scenario, nproc=nproc, steps=steps)
    if backend not in BACKENDS:
        raise UnknownNameError("backend", backend, BACKENDS)
    if importlib.util.find_spec("torch") is None:
        raise RuntimeFailedError("torch is not installed: pip install torch==2.13.0")
    check_memory(plan_of(asked), available_bytes())
    if out is not None:
        check_place(out)
    with _working_directory() as directory:
        write_assignment(Assignment(asked.to_dict(), backend, timeout_s, poison), directory)
        command = ["-m", "zerosim_runtime", str(directory)]
        tell = progress or _silent
        tell(f"starting {nproc} ranks")
        code = run_ranks(command, directory, nproc, lambda done: tell(f"step {done} of {steps}"))
        failure = describe_failure(directory, asked) if code else None
        merged = _merged(directory, failure)
    if out is not None and merged is not None:
        save_run(merged, out)
    if failure is not None:
        kept = "nothing was recorded" if merged is None else "what they recorded is kept"
        where = f" as the unfinished run '{out}'" if merged is not None and out is not None else ""
        raise RuntimeFailedError(f"{failure}: the other ranks were stopped, {kept}{where}")
    if merged is None:
        raise RuntimeFailedError("the ranks recorded nothing: run again with --json and report it")
    return merged


def as_real(scenario: Scenario, *, nproc: int, steps: int) -> Scenario:
    """The scenario that real ranks carry out: so many of them and of steps, all at their own speed."""
    if nproc < 1:
        raise ScenarioError(f"nproc is {nproc}: give at least 1")
    check_limits(scenario)
    return replace(
        scenario,
        cluster=replace(scenario.cluster, world_size=nproc),
        run=replace(
            scenario.run,
            steps=steps,
            stragglers="",
            jitter=0.0,
            slow_links=None,
            network_jitter=None,
        ),
    )


def run_ranks(
    command: list[str], directory: Path, nproc: int, tell: Callable[[int], None] = lambda _: None
) -> int:
    """Run `python COMMAND` as `nproc` ranks under torchrun; returns its exit code.

    `directory` must hold the ranks' files; `torchrun.log` there gets their output. `tell` gets the
    number of steps that rank 0 has done. However it ends, no process is left.
    """
    with (directory / LOCK_FILE).open("wb") as lock, (directory / "torchrun.log").open("wb") as log:
        fcntl.flock(lock, fcntl.LOCK_EX)
        agent = subprocess.Popen(
            [*_torchrun(nproc), *command],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            # When ranks fail, torchrun leaves its temporary files behind.
            env=environment(nproc) | {"TMPDIR": str(directory)},
            start_new_session=True,
        )
        try:
            return _watch(agent, directory, tell)
        finally:
            _end(agent)
            fcntl.flock(lock, fcntl.LOCK_UN)
            _await_end(_pids(directory, nproc), str(directory))


def _torchrun(nproc: int) -> list[str]:
    return [
        *(sys.executable, "-m", "torch.distributed.run", "--standalone", "--max-restarts=0"),
        *(f"--nproc-per-node={nproc}", "--monitor-interval=0.1", "--no-python", sys.executable),
    ]


def environment(nproc: int) -> dict[str, str]:
    """The environment of `nproc` ranks of this machine: where the packages are, how many threads."""
    homes = [Path(zerosim.__file__).parents[1], Path(__file__).parents[1]]
    paths = [*map(str, homes), *filter(None, [os.environ.get("PYTHONPATH")])]
    defaults = {"OMP_NUM_THREADS": str(max(1, (os.cpu_count() or 1) // nproc))}
    if Path("/sys/class/net/lo").exists():
        # All ranks are on this machine; its host name may lead anywhere.
        defaults["GLOO_SOCKET_IFNAME"] = "lo"
    return defaults | os.environ | {"PYTHONPATH": os.pathsep.join(paths)}


def _watch(agent: subprocess.Popen[bytes], directory: Path, tell: Callable[[int], None]) -> int:
    told = 0
    while True:
        with suppress(subprocess.TimeoutExpired):
            return agent.wait(_POLL_S)
        if (done := steps_done(directory)) > told:
            told = done
            tell(told)


def _end(agent: subprocess.Popen[bytes]) -> None:
    """Ask torchrun to stop its ranks; if it does not, end it (the ranks see that and end, too)."""
    if agent.poll() is not None:
        return
    agent.terminate()
    try:
        agent.wait(_GRACE_S)
    except subprocess.TimeoutExpired:
        agent.kill()
        agent.wait()


def _pids(directory: Path, nproc: int) -> list[int]:
    records = (read_record(directory, rank) for rank in range(nproc))
    return [int(record.header["pid"]) for record in records if record is not None]


def _await_end(pids: list[int], directory: str) -> None:
    """Wait until the ranks are gone; kill one that stays although nobody holds its lock any more."""
    deadline = time.monotonic() + _GRACE_S
    while alive := [pid for pid in pids if _is_rank(pid, directory)]:
        if time.monotonic() > deadline:
            for pid in alive:
                with suppress(ProcessLookupError):
                    os.kill(pid, 9)
        time.sleep(_POLL_S / 10)


def _is_rank(pid: int, directory: str) -> bool:
    """Whether `pid` is still a rank of this run, and not some later process of that number."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return directory.encode() in words


@contextmanager
def _working_directory() -> Iterator[Path]:
    directory = Path(tempfile.mkdtemp(prefix="zerosim-"))
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _silent(_: str) -> None:
    """Nobody wants to know."""


def _merged(directory: Path, failure: str | None) -> Trace | None:
    try:
        return merge(directory, failure=failure)
    except RuntimeFailedError:
        if failure is None:
            raise
        return None
