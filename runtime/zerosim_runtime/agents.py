"""torchrun's agents, one a node: how they are started, watched and ended, so that no process is left."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import zerosim
from zerosim_runtime.assignment import LOCK_FILE
from zerosim_runtime.places import ranks_in
from zerosim_runtime.records import read_record, steps_done
from zerosim_runtime.rendezvous import Rendezvous, torchrun_words

_POLL_S: Final = 0.1
_GRACE_S: Final = 15.0


@dataclass(frozen=True, slots=True)
class Node:
    """A node: `nproc` ranks that run `python COMMAND` under one agent, and write into `directory`.

    `rendezvous` None: it is the only node. `address` and `interface`: how the others reach it. `prefix`:
    the words that put a command onto this node (empty: it runs here). `max_restarts`: how often ranks
    start anew after one failed. `n_here`: ranks that share this machine's cores, if more than `nproc`.
    """

    command: tuple[str, ...]
    directory: Path
    nproc: int
    rendezvous: Rendezvous | None = None
    address: str | None = None
    interface: str | None = None
    prefix: tuple[str, ...] = ()
    max_restarts: int = 0
    n_here: int | None = None


def run_nodes(nodes: Sequence[Node], tell: Callable[[int], None] = lambda _: None) -> int:
    """Run all ranks of `nodes`; returns the exit code of the first node to fail, 0 if none does.

    A node's directory must hold its ranks' files; `torchrun.log` there gets their output. `tell` gets
    the number of steps that the first rank has done. However it ends, no process is left.
    """
    with ExitStack() as stack:
        agents = [stack.enter_context(_agent(node)) for node in nodes]
        try:
            return _watch(agents, nodes[0].directory, tell)
        finally:
            for agent in agents:
                if agent.poll() is None:
                    agent.terminate()


def environment(nproc: int, interface: str | None = "lo") -> dict[str, str]:
    """The environment of `nproc` ranks of a machine: where the packages are, how many threads.

    `interface`: what Gloo talks by. A host name may lead anywhere, so by default it is the loopback.
    """
    homes = [Path(zerosim.__file__).parents[1], Path(__file__).parents[1]]
    paths = [*map(str, homes), *filter(None, [os.environ.get("PYTHONPATH")])]
    defaults = {"OMP_NUM_THREADS": str(max(1, (os.cpu_count() or 1) // nproc))}
    if interface is not None and (interface != "lo" or Path("/sys/class/net/lo").exists()):
        defaults["GLOO_SOCKET_IFNAME"] = interface
    return defaults | os.environ | {"PYTHONPATH": os.pathsep.join(paths)}


@contextmanager
def _agent(node: Node) -> Iterator[subprocess.Popen[bytes]]:
    """The agent of a node. When the block ends, it and its ranks have ended."""
    directory = node.directory
    with (directory / LOCK_FILE).open("wb") as lock, (directory / "torchrun.log").open("wb") as log:
        fcntl.flock(lock, fcntl.LOCK_EX)
        agent = subprocess.Popen(
            [*node.prefix, *_torchrun(node), *node.command],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            # When ranks fail, torchrun leaves its temporary files behind.
            env=_environment(node) | {"TMPDIR": str(directory)},
            start_new_session=True,
        )
        try:
            yield agent
        finally:
            _end(agent)
            fcntl.flock(lock, fcntl.LOCK_UN)
            _await_end(_pids(directory), str(directory))


def _environment(node: Node) -> dict[str, str]:
    n_here = node.n_here or node.nproc
    if node.rendezvous is None:
        return environment(n_here)
    # Where the user's own interface leads, no lab's ranks can go.
    own = {} if not node.prefix else {"GLOO_SOCKET_IFNAME": str(node.interface)}
    return environment(n_here, node.interface) | own


def _torchrun(node: Node) -> list[str]:
    meeting = ["--standalone"]
    if node.rendezvous is not None:
        meeting = torchrun_words(node.rendezvous, node.address)
    return [
        *(sys.executable, "-m", "torch.distributed.run", *meeting),
        *(f"--max-restarts={node.max_restarts}", f"--nproc-per-node={node.nproc}"),
        *("--monitor-interval=0.1", "--no-python", sys.executable),
    ]


def _watch(
    agents: Sequence[subprocess.Popen[bytes]], directory: Path, tell: Callable[[int], None]
) -> int:
    """Until all have ended, or a while after one has failed; returns the first code that is not 0."""
    told, deadline = 0, float("inf")
    while True:
        codes = [agent.poll() for agent in agents]
        failed = next((code for code in codes if code), 0)
        if failed:
            deadline = min(deadline, time.monotonic() + _GRACE_S)
        if all(code is not None for code in codes) or time.monotonic() > deadline:
            return failed
        time.sleep(_POLL_S)
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


def _pids(directory: Path) -> list[int]:
    records = (read_record(directory, rank) for rank in ranks_in(directory))
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
