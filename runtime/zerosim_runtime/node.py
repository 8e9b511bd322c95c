"""One node of a run on many machines: its ranks write into a directory of its own; `merge` collects them."""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path

from zerosim.errors import InputError, RunError, RuntimeFailedError
from zerosim.scenario import Scenario, plan_of
from zerosim.trace import Trace
from zerosim_runtime.agents import Node, run_nodes
from zerosim_runtime.assignment import Assignment, read_assignment, write_assignment
from zerosim_runtime.failure import describe_failure
from zerosim_runtime.launch import Progress, program
from zerosim_runtime.merge import merge
from zerosim_runtime.places import ASSIGNMENT_FILE, Where, places
from zerosim_runtime.records import of_one_attempt, read_record
from zerosim_runtime.rendezvous import Rendezvous, address_towards, interface_of
from zerosim_runtime.tracing.collect import collect
from zerosim_runtime.tracing.log import read_logs
from zerosim_runtime.tracing.verdict import incomplete
from zerosim_runtime.watchdog import TIMEOUT_S, Watchdog


def trace_node(
    assignment: Assignment,
    rendezvous: Rendezvous,
    *,
    nproc: int,
    out: Path,
    max_restarts: int = 0,
    timeout_s: float = TIMEOUT_S,
    progress: Progress,
) -> Path:
    """Run this node's `nproc` ranks, and leave what they recorded below `out`; returns the directory.

    Every node must be given the same assignment. Raises RuntimeFailedError if a rank of this node fails
    or loses the others: what was recorded is kept.
    """
    if max_restarts and rendezvous.node_rank is not None:
        raise InputError(
            f"--max-restarts is {max_restarts} beside --node-rank: leave --node-rank out, so that nodes "
            "are numbered as they come, and can come again"
        )
    directory = node_directory(out, rendezvous)
    address = address_towards(rendezvous)
    write_assignment(assignment, directory)
    node = Node(
        program(directory),
        directory,
        nproc,
        rendezvous,
        address=address,
        interface=interface_of(address),
        max_restarts=max_restarts,
    )
    asked = Scenario.from_dict(assignment.scenario)
    steps = asked.run.steps
    progress(f"starting {nproc} of {asked.cluster.world_size} ranks, waiting for the other nodes")
    watchdog = Watchdog(directory, None, timeout_s, strict=True)
    code = run_nodes([node], lambda done: progress(f"step {done} of {steps}"), watchdog)
    if code:
        verdict = watchdog.verdict
        reason = describe_failure(directory, asked) if verdict is None else verdict.reason
        raise RuntimeFailedError(
            f"{reason}: the ranks of this node were stopped, "
            f"what they recorded is kept in '{directory}'"
        )
    return directory


def merge_nodes(where: Where) -> Trace:
    """The run of all ranks whose directories are given; unfinished if a rank is missing or failed.

    Raises RunError for directories that are not of one run, or hold what no rank wrote;
    RuntimeFailedError if nothing was recorded. Records of a traced program are collected, too.
    """
    assigned = any((place / ASSIGNMENT_FILE).exists() for place in places(where))
    if not assigned and read_logs(where):
        return collect(where, failure=incomplete(where))
    _, scenario = read_assignment(where)
    plan_of(scenario)
    n_ranks = scenario.cluster.world_size
    records = of_one_attempt(read_record(where, rank) for rank in range(n_ranks))
    missing = [rank for rank, record in enumerate(records) if record is None or not record.rows]
    failures = []
    if missing:
        failures.append(f"{_named(missing)} of {n_ranks} left no record")
    if any(record is not None and record.status != "finished" for record in records):
        failures.append(describe_failure(where, scenario))
    return merge(where, failure="; ".join(failures) or None)


def _named(ranks: list[int]) -> str:
    """`rank 3`, `ranks 1, 2`, `ranks 4-7, 9`."""
    runs: list[list[int]] = []
    for rank in ranks:
        if runs and rank == runs[-1][-1] + 1:
            runs[-1].append(rank)
        else:
            runs.append([rank])
    words = [f"{r[0]}-{r[-1]}" if len(r) > 2 else ", ".join(map(str, r)) for r in runs]  # noqa: PLR2004 - two are no range
    return f"rank{'s' if len(ranks) > 1 else ''} {', '.join(words)}"


def node_directory(out: Path, rendezvous: Rendezvous) -> Path:
    """A new directory of this node below `out`. Raises RunError."""
    number = rendezvous.node_rank
    host = re.sub(r"[^A-Za-z0-9.-]", "-", platform.node())[:80]
    directory = out / (f"node-{number}" if number is not None else f"node-{host}-{os.getpid()}")
    try:
        directory.mkdir(parents=True)
    except FileExistsError:
        raise RunError(
            f"'{directory}' is there already, from another run: give another place with -o"
        ) from None
    except OSError as error:
        raise RunError(
            f"'{directory}' cannot be made ({error.strerror}): give another place with -o"
        ) from None
    return directory
