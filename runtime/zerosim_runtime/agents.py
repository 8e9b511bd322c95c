"""torchrun's agents, one a node: how they are started, watched and ended, so that no process is left."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Final

import zerosim
from zerosim_runtime.assignment import LOCK_FILE
from zerosim_runtime.ending import end, mark
from zerosim_runtime.records import steps_done
from zerosim_runtime.rendezvous import Rendezvous, torchrun_words
from zerosim_runtime.watchdog import Watchdog

_POLL_S: Final = 0.1
_TURNS: Final = 5
"""The watchdog looks every so many polls."""
_GRACE_S: Final = 5.0
LOOPBACK: Final = "lo"


@dataclass(frozen=True, slots=True)
class Node:
    """A node: `nproc` ranks that run `python COMMAND` under one agent, and write into `directory`.

    `rendezvous` None: it is the only node. `address` and `interface`: how the others reach it. `prefix`:
    the words that put a command onto this node (empty: it runs here). `max_restarts`: how often ranks
    start anew after one failed. `n_here`: ranks that share this machine's cores, if more than `nproc`.
    `variables`: what else stands in the ranks' environment.
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
    variables: tuple[tuple[str, str], ...] = ()


def run_nodes(
    nodes: Sequence[Node],
    tell: Callable[[int], None] = lambda _: None,
    watchdog: Watchdog | None = None,
) -> int:
    """Run all ranks of `nodes`; returns the exit code of the first node to fail, 0 if none does.

    A node's directory must hold its ranks' files; `torchrun.log` there gets their output. `tell` gets
    the number of steps that the first rank has done; once the `watchdog` has a verdict, all ranks are
    stopped. However it ends, no process is left.
    """
    agents: list[subprocess.Popen[bytes]] = []
    with ExitStack() as stack:
        try:
            for node in nodes:
                agents.append(stack.enter_context(_agent(node)))  # noqa: PERF401 - if one fails to start, the others are ended
            return _watch(agents, nodes[0].directory, tell, watchdog)
        finally:
            end(agents, [node.directory for node in nodes])


def environment(nproc: int, interface: str | None = LOOPBACK) -> dict[str, str]:
    """The environment of `nproc` ranks of a machine: where the packages are, how many threads.

    `interface`: what Gloo talks by. A host name may lead anywhere, so by default it is the loopback.
    """
    threads = {"OMP_NUM_THREADS": str(max(1, (os.cpu_count() or 1) // nproc))}
    return threads | talking_by(interface) | os.environ | {"PYTHONPATH": python_path()}


def python_path(*first: Path) -> str:
    """The PYTHONPATH of processes that must find this code, `first` before it, the user's own after."""
    homes = [*first, Path(zerosim.__file__).parents[1], Path(__file__).parents[1]]
    return os.pathsep.join([*map(str, homes), *filter(None, [os.environ.get("PYTHONPATH")])])


def talking_by(interface: str | None) -> dict[str, str]:
    """What tells Gloo its interface; nothing for None, or for a loopback that is not there."""
    if interface is None or (interface == LOOPBACK and not Path("/sys/class/net/lo").exists()):
        return {}
    return {"GLOO_SOCKET_IFNAME": interface}


@contextmanager
def _agent(node: Node) -> Iterator[subprocess.Popen[bytes]]:
    """The agent of a node; as long as the block lasts, its ranks know that they are watched."""
    directory = node.directory
    with (directory / LOCK_FILE).open("wb") as lock, (directory / "torchrun.log").open("wb") as log:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield subprocess.Popen(
            [*node.prefix, *_torchrun(node), *node.command],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=_environment(node) | dict(node.variables) | mark(directory),
            start_new_session=True,
        )


def _environment(node: Node) -> dict[str, str]:
    own: dict[str, str] = {}
    if node.max_restarts:
        # torchrun's own store lives on through restarts, and with it where the dead ranks listened.
        own["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1"
    if node.prefix:
        # Where the user's own interface leads, no lab's ranks can go.
        own["GLOO_SOCKET_IFNAME"] = str(node.interface)
    interface = LOOPBACK if node.rendezvous is None else node.interface
    return environment(node.n_here or node.nproc, interface) | own


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
    agents: Sequence[subprocess.Popen[bytes]],
    directory: Path,
    tell: Callable[[int], None],
    watchdog: Watchdog | None,
) -> int:
    """Until all have ended, or a while after one has failed; returns the first code that is not 0."""
    told, deadline = 0, float("inf")
    for turn in count(1):
        codes = [agent.poll() for agent in agents]
        failed = next((code for code in codes if code), 0)
        if failed:
            deadline = min(deadline, time.monotonic() + _GRACE_S)
        if all(code is not None for code in codes) or time.monotonic() > deadline:
            return failed
        if watchdog is not None and turn % _TURNS == 0 and watchdog.look() is not None:
            return 1
        time.sleep(_POLL_S)
        if (done := steps_done(directory)) > told:
            told = done
            tell(told)
    return 1
