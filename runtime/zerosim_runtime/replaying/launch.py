"""The parent of a real replay: as many ranks as the run had, on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from zerosim.errors import InputError, ScenarioError
from zerosim.replay import Replay
from zerosim.scenario import Scenario
from zerosim.store import save_run
from zerosim.trace import Trace
from zerosim.units import format_bytes
from zerosim_runtime.agents import Node
from zerosim_runtime.assignment import RUN, Assignment
from zerosim_runtime.capacity import available_bytes, check_torch
from zerosim_runtime.launch import Progress, measure, program, working_directory
from zerosim_runtime.pace import parse_backend

MAX_RANKS: Final = 64
_COPIES: Final = 2


def replay_really(
    trace: Trace,
    replay: Replay,
    scenario: Scenario,
    *,
    backend: str = "auto",
    out: Path | None = None,
    progress: Progress | None = None,
    timeout_s: float = 300.0,
) -> Trace:
    """Have real ranks issue the collectives of `trace`, whose program `replay` is; what they did.

    `scenario` is what the run's header will say. Raises InputError for a backend that there is
    not, and for more ranks or bytes than this machine has, RuntimeFailedError if a rank dies; no process
    stays behind.
    """
    n_ranks = replay.plan.world_size
    check_torch()
    if parse_backend(backend)[1] is not None:
        raise InputError(
            f"backend is '{backend}', and a replay's links are not paced: give auto, gloo or nccl"
        )
    if n_ranks > MAX_RANKS:
        raise ScenarioError(
            f"the run has {n_ranks} ranks, and {MAX_RANKS} can be started here: "
            "leave out --real to replay it in the simulator"
        )
    _check_memory(replay, available_bytes())
    with working_directory() as directory:
        save_run(trace, directory / RUN)
        assignment = Assignment(scenario.to_dict(), backend, timeout_s, replays=True)
        nodes = [Node(program(directory), directory, n_ranks)]
        return measure(assignment, nodes, directory, out, progress)


def _check_memory(replay: Replay, available: int | None) -> None:
    largest: dict[str, int] = {}
    for op in replay.plan.ops:
        if op.communicator is not None and op.id in replay.priced:
            largest[op.communicator] = max(largest.get(op.communicator, 0), op.nbytes or 0)
    needed = _COPIES * sum(largest.values()) * replay.plan.world_size
    if available is not None and needed > available:
        raise ScenarioError(
            f"the largest tensors of {replay.plan.world_size} ranks take {format_bytes(needed)}, "
            f"this machine has {format_bytes(available)} free: leave out --real"
        )
