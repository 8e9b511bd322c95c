"""Two nodes, each with an agent of its own: a rank that is killed starts anew, on both."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from zerosim_runtime.agents import environment
from zerosim_runtime.node import merge_nodes
from zerosim_runtime.records import Record, read_record


@dataclass(frozen=True, slots=True)
class Commands:
    """`zerosim trace` of each node, in a process of its own."""

    processes: list[subprocess.Popen[str]]
    parts: Path


@pytest.fixture
def commands(tmp_path: Path) -> Iterator[Callable[..., Commands]]:
    """Starts `zerosim trace` of two nodes of one rank; the second is given the words `differ`, too."""
    processes: list[subprocess.Popen[str]] = []
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    def start(*words: str, differ: tuple[str, ...] = ()) -> Commands:
        for node in range(2):
            where = ["--nnodes", "2", "--nproc", "1", "--rendezvous", f"127.0.0.1:{port}"]
            own = (*words, *(differ if node else ()))
            processes.append(
                subprocess.Popen(
                    [
                        *(sys.executable, "-m", "zerosim", "trace", *where, *own),
                        *("lesson-zero3", "-o", str(tmp_path / "parts")),
                    ],
                    env=environment(2),
                    stderr=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    text=True,
                )
            )
        return Commands(processes, tmp_path / "parts")

    yield start
    for process in processes:
        process.kill()
        process.communicate()


@pytest.mark.runtime
def test_a_rank_that_is_killed_is_started_anew_on_both_nodes(
    commands: Callable[..., Commands],
) -> None:
    running = commands("--max-restarts", "1", "--steps", "60")
    first = _record_of(running.parts, rank=1)
    os.kill(int(first.header["pid"]), signal.SIGKILL)
    messages = [process.communicate(timeout=120)[1] for process in running.processes]
    assert [process.returncode for process in running.processes] == [0, 0], messages
    second, merged = read_record(running.parts, 1), merge_nodes(running.parts)
    assert second is not None
    assert second.attempt > first.attempt > 0
    assert merged.meta.finished
    assert {window.step for window in merged.meta.steps} == set(range(1, 61))


@pytest.mark.runtime
def test_nodes_that_are_asked_for_different_things_say_so(
    commands: Callable[..., Commands],
) -> None:
    running = commands("--steps", "2", differ=("--dtype", "float64"))
    messages = [process.communicate(timeout=120)[1] for process in running.processes]
    assert [process.returncode for process in running.processes] == [1, 1]
    assert all("was asked to do something else than rank 0" in text for text in messages), messages


def _record_of(parts: Path, rank: int) -> Record:
    """The record of a rank that has done a few steps."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        record = read_record(parts, rank) if parts.is_dir() else None
        if record is not None and len(record.losses) > 1:
            return record
        time.sleep(0.05)
    raise AssertionError("the ranks did not get going within 120 s")
