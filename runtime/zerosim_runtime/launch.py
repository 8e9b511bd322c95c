"""The parent of real ranks: starts torchrun, watches it, and turns what ranks wrote into a run."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from zerosim.errors import RunError, RuntimeFailedError, ScenarioError
from zerosim.plan import Plan
from zerosim.scenario import Scenario, plan_of
from zerosim.store import check_place, save_run
from zerosim.trace import Trace
from zerosim_runtime.agents import Node, run_nodes
from zerosim_runtime.assignment import Assignment, assigned_plan, write_assignment
from zerosim_runtime.capacity import available_bytes, check_memory, check_torch
from zerosim_runtime.failure import describe_failure
from zerosim_runtime.limits import check_limits
from zerosim_runtime.links import on_links
from zerosim_runtime.merge import merge
from zerosim_runtime.records import steps_done
from zerosim_runtime.resident import STEADY_MALLOC
from zerosim_runtime.watchdog import TIMEOUT_S, Watchdog

Progress = Callable[[str], None]


def trace(
    scenario: Scenario,
    *,
    nproc: int,
    steps: int = 4,
    backend: str = "auto",
    scatter: str | None = None,
    out: Path | None = None,
    progress: Progress | None = None,
    timeout_s: float = TIMEOUT_S,
    poison: bool = False,
    max_restarts: int = 0,
    rss: bool = False,
) -> Trace:
    """Run a scenario on `nproc` real ranks of this machine, and return what they recorded.

    The run is stored as `out` if that is given, also when a rank fails: then as an unfinished one,
    unless all ranks may start anew (`max_restarts` times). `progress` is told in words. A rank that holds
    up others and has not moved for `timeout_s` ends the run. With `rss` ranks also note their resident
    memory, which takes time. Raises InputError for what cannot be run, RuntimeFailedError if a rank dies
    or hangs, KeyboardInterrupt on Ctrl-C; no process stays behind, whatever happens.
    """
    asked = prepare(
        scenario,
        nproc=nproc,
        steps=steps,
        backend=backend,
        scatter=scatter,
        poison=poison,
    )
    assignment = replace(asked, rss=rss)
    variables = STEADY_MALLOC if rss else ()
    with working_directory() as directory:
        command = program(directory)
        nodes = [Node(command, directory, nproc, max_restarts=max_restarts, variables=variables)]
        return measure(assignment, nodes, directory, out, progress, timeout_s=timeout_s)


def prepare(
    scenario: Scenario,
    *,
    nproc: int,
    nnodes: int = 1,
    steps: int,
    backend: str = "auto",
    scatter: str | None = None,
    timeout_s: float = 300.0,
    poison: bool = False,
) -> Assignment:
    """What `nproc` ranks on each of `nnodes` nodes are asked to do, checked before any starts.

    `backend` as `parse_backend` reads it; `scatter` None: as the scenario's cluster says. Raises
    InputError for what cannot be run, RuntimeFailedError without torch.
    """
    asked = on_links(as_real(scenario, nproc=nproc * nnodes, steps=steps), backend, scatter)
    check_torch()
    check_memory(plan_of(asked), available_bytes(), nproc)
    return Assignment(asked.to_dict(), backend, timeout_s, poison)


def measure(
    assignment: Assignment,
    nodes: Sequence[Node],
    directory: Path,
    out: Path | None,
    progress: Progress | None = None,
    finish: Callable[[Trace], Trace] = lambda trace: trace,
    timeout_s: float = TIMEOUT_S,
) -> Trace:
    """Run the ranks of `nodes`, which write into `directory` or below it, and store what they did.

    `finish` adds to a run before it is stored. A rank that holds up others and has not moved for
    `timeout_s` ends the run. Raises RuntimeFailedError if a rank dies, KeyboardInterrupt on Ctrl-C.
    """
    if out is not None:
        check_place(out)
    tell, asked = progress or _silent, Scenario.from_dict(assignment.scenario)
    for node in nodes:
        write_assignment(assignment, node.directory)
    plan = assigned_plan(directory, assignment, asked)
    tell(f"starting {asked.cluster.world_size} ranks")
    failure, stopped = _run(nodes, asked, plan, directory, timeout_s, tell)
    merged = _merged(directory, failure)
    if merged is not None:
        merged = finish(merged)
    if out is not None and merged is not None:
        _store(merged, out, directory)
    if failure is not None:
        kept = "nothing was recorded" if merged is None else "what they recorded is kept"
        where = f" as the unfinished run '{out}'" if merged is not None and out is not None else ""
        if stopped:
            raise KeyboardInterrupt(f"{failure}: {kept}{where}")
        raise RuntimeFailedError(f"{failure}: the other ranks were stopped, {kept}{where}")
    if merged is None:
        raise RuntimeFailedError("the ranks recorded nothing: run again with --json and report it")
    n_ranks = max(node.nproc for node in nodes)
    gpus = int(merged.provenance.get("gpus", 0))
    if (why := why_gloo(assignment.backend, merged.meta.engine, gpus, n_ranks)) is not None:
        tell(why)
    return merged


def why_gloo(asked: str, backend: str | None, n_gpus: int, n_ranks: int) -> str | None:
    """What to say where ranks of one machine did without its GPUs, and nobody had asked for that."""
    if asked != "auto" or backend != "gloo" or not n_gpus:
        return None
    gpus = "1 GPU" if n_gpus == 1 else f"{n_gpus} GPUs"
    return (
        f"{gpus} cannot serve {n_ranks} ranks, one each: they ran on CPU tensors, by gloo "
        f"(--nproc {n_gpus} would use a GPU each)"
    )


def _run(
    nodes: Sequence[Node],
    asked: Scenario,
    plan: Plan,
    directory: Path,
    timeout_s: float,
    tell: Progress,
) -> tuple[str | None, bool]:
    """Run the ranks; returns why they failed (None: they did not), and whether it was Ctrl-C."""
    steps = asked.run.steps
    watchdog = Watchdog(directory, asked.cluster.world_size, timeout_s, strict=True)
    try:
        code = run_nodes(nodes, lambda done: tell(f"step {done} of {steps}"), watchdog)
    except KeyboardInterrupt:
        return f"stopped after {steps_done(nodes[0].directory)} of {steps} steps", True
    if watchdog.verdict is not None:
        return watchdog.verdict.reason, False
    return describe_failure(directory, asked, plan) if code else None, False


def _store(merged: Trace, out: Path, directory: Path) -> None:
    """Store a run; if it cannot be stored, what the ranks wrote stays. Raises RuntimeFailedError."""
    try:
        save_run(merged, out)
    except RunError as error:
        kept = directory.with_name(f"{directory.name}-kept")
        directory.rename(kept)
        raise RuntimeFailedError(
            f"{error}: what the ranks recorded is kept, `zerosim merge {kept} -o RUN` reads it"
        ) from None


def program(directory: Path) -> tuple[str, ...]:
    """What each rank of an assignment in `directory` runs, as words for Python."""
    return ("-m", "zerosim_runtime", str(directory))


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
            ledger=True,
        ),
    )


def run_ranks(
    command: list[str],
    directory: Path,
    nproc: int,
    tell: Callable[[int], None] = lambda _: None,
    watchdog: Watchdog | None = None,
) -> int:
    """Run `python COMMAND` as `nproc` ranks under torchrun; returns its exit code.

    `directory` must hold the ranks' files; `torchrun.log` there gets their output. `tell` gets the
    number of steps that the first rank has done; once the `watchdog` has a verdict, the ranks are
    stopped. However it ends, no process is left.
    """
    return run_nodes([Node(tuple(command), directory, nproc)], tell, watchdog)


@contextmanager
def working_directory() -> Iterator[Path]:
    """A directory for what ranks write, gone when the block ends."""
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
