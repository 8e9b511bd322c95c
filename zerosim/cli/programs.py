"""`zerosim trace -- PROGRAM`: trace any torch.distributed program, started as it is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

import typer

from zerosim.analysis.summary import summarize
from zerosim.cli.output import log, print_json
from zerosim.cli.runtime import runtime
from zerosim.cli.summary import print_summary
from zerosim.store import run_path

Kineto = Annotated[
    bool, typer.Option("--kineto", help="A program: torch's profiler, too (RUN/kineto).")
]
FlightRecorder = Annotated[
    bool, typer.Option("--flight-recorder", help="A program: torch's flight recorder, too.")
]
NcclLog = Annotated[bool, typer.Option("--nccl-log", help="A program: NCCL's log, too (RUN/nccl).")]
_LAUNCHERS: Final = ("torchrun", "accelerate", "deepspeed", "srun", "mpirun", "mpiexec")


def is_program(words: Sequence[str]) -> bool:
    """Whether the words name a program; a single word may as well be a scenario."""
    return len(words) > 1 or words[0].endswith(".py") or words[0] in _LAUNCHERS


def extras_of(**asked: bool) -> tuple[str, ...]:
    """The names of the options that were given, as they are typed."""
    return tuple(name.replace("_", "-") for name, given in asked.items() if given)


def trace_program(
    words: Sequence[str],
    out: Path | None,
    *,
    nproc: int,
    steps: str | None,
    extras: tuple[str, ...],
    timeout_s: float,
    nnodes: int,
    node_rank: int | None,
    rendezvous: str | None,
    json: bool,
) -> None:
    """Run a program, store what its ranks recorded, and print the summary."""
    launch, command = runtime("tracing.launch"), runtime("tracing.command")
    out = out or run_path(Path("runs"), command.name_of(words))
    meeting = None
    if nnodes > 1 or node_rank is not None or rendezvous is not None:
        meeting = runtime("rendezvous").rendezvous_at(rendezvous, nnodes, node_rank)
    options = launch.Options(nproc, steps, extras, timeout_s, meeting)
    result = launch.trace_program(words, out, options, log)
    if result is None:
        if json:
            print_json({"parts": str(out if meeting else runtime("tracing.keeping").parts_of(out))})
        return
    log(f"stored {out}")
    print_summary(summarize(result), json=json)
