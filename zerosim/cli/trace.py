"""`zerosim trace`: run a scenario's plan with real ranks, or any program, and record what they do."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from zerosim.analysis.summary import peak_bytes, summarize
from zerosim.cli import programs
from zerosim.cli.options import Json, Words
from zerosim.cli.output import log, print_json, print_rows
from zerosim.cli.runtime import runtime
from zerosim.cli.summary import print_summary
from zerosim.errors import InputError, ScenarioError
from zerosim.scenario import load_scenario
from zerosim.store import run_path
from zerosim.units import format_bytes

Source = Annotated[
    list[str],
    typer.Argument(
        metavar="SCENARIO | -- PROGRAM…",
        help="A preset, TOML file or run; or a script (.py), -m MODULE or command with its words.",
    ),
]
Ranks = Annotated[int, typer.Option("--nproc", min=1, max=64, help="Ranks to start.")]
Out = Annotated[
    Path | None,
    typer.Option("-o", "--out", metavar="RUN", help="Store it here (in runs, by its name)."),
]
Steps = Annotated[
    str | None,
    typer.Option("--steps", metavar="N|A:B", help="Steps to run (4); of a program, those to keep."),
]
DEFAULT_STEPS: Final = 4
Dtype = Annotated[
    str | None, typer.Option("--dtype", help="float64, float32, bfloat16 or float16.")
]
Optimizer = Annotated[str | None, typer.Option("--optimizer", help="sgd, momentum, adam or adamw.")]
Backend = Annotated[
    str,
    typer.Option(
        "--backend", help="auto, gloo, nccl, or paced:400Mbit,50us (a link of that rate)."
    ),
]
Scatter = Annotated[
    str | None,
    typer.Option("--scatter", help="How Gloo reduce-scatters: native or all-to-all, in pieces."),
]
Nodes = Annotated[int, typer.Option("--nnodes", min=1, max=4096, help="Machines of the run.")]
NodeRank = Annotated[
    int | None,
    typer.Option("--node-rank", metavar="K", help="Which of them this is, from 0 (as they come)."),
]
Meeting = Annotated[
    str | None,
    typer.Option("--rendezvous", metavar="HOST:PORT", help="Where they meet: on the first one."),
]
Restarts = Annotated[
    int, typer.Option("--max-restarts", min=0, max=100, help="Start anew so often after a failure.")
]
Timeout = Annotated[
    float,
    typer.Option(
        "--timeout", min=1, help="Seconds in which a rank that others wait for must move."
    ),
]
Resident = Annotated[
    bool, typer.Option("--rss", help="Note resident memory at every op of a scenario, too (slow).")
]


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("trace")(trace)


def trace(
    source: Source,
    nproc: Ranks = 2,
    out: Out = None,
    words: Words = None,
    steps: Steps = None,
    dtype: Dtype = None,
    optimizer: Optimizer = None,
    backend: Backend = "auto",
    scatter: Scatter = None,
    nnodes: Nodes = 1,
    node_rank: NodeRank = None,
    rendezvous: Meeting = None,
    max_restarts: Restarts = 0,
    timeout: Timeout = 20.0,
    rss: Resident = False,
    kineto: programs.Kineto = False,
    flight_recorder: programs.FlightRecorder = False,
    nccl_log: programs.NcclLog = False,
    json: Json = False,
) -> None:
    """Run a scenario's plan with real ranks, or trace a program of yours.

    Ranks start through torchrun, on NCCL when each has a GPU, else on Gloo; the run is stored.
    With --rendezvous, this is one node of several: `zerosim merge` makes a run of what they leave.
    After `--` stands a program: a script or `-m MODULE` is started as --nproc ranks, and a command
    (torchrun, accelerate, deepspeed, srun) as it is.
    """
    if programs.is_program(source):
        _refuse("a program", set=words, dtype=dtype, optimizer=optimizer, scatter=scatter, rss=rss)
        _refuse("a program", backend=backend != "auto", max_restarts=max_restarts)
        programs.trace_program(
            source,
            out,
            nproc=nproc,
            steps=steps,
            extras=programs.extras_of(
                kineto=kineto, flight_recorder=flight_recorder, nccl_log=nccl_log
            ),
            timeout_s=timeout,
            nnodes=nnodes,
            node_rank=node_rank,
            rendezvous=rendezvous,
            json=json,
        )
        return
    _refuse("a scenario", kineto=kineto, flight_recorder=flight_recorder, nccl_log=nccl_log)
    chosen = load_scenario(source[0], _changes(words, dtype, optimizer, nproc * nnodes))
    launch = runtime("launch")
    out = out or run_path(Path("runs"), f"{chosen.name}-{nproc * nnodes}-ranks")
    if nnodes > 1 or node_rank is not None or rendezvous is not None:
        asked = launch.prepare(
            chosen,
            nproc=nproc,
            nnodes=nnodes,
            steps=_count(steps),
            backend=backend,
            scatter=scatter,
        )
        meeting = runtime("rendezvous").rendezvous_at(rendezvous, nnodes, node_rank)
        place = runtime("node").trace_node(
            asked,
            meeting,
            nproc=nproc,
            out=out,
            max_restarts=max_restarts,
            timeout_s=timeout,
            progress=log,
        )
        _print_place(place, out, json=json)
        return
    result = launch.trace(
        chosen,
        nproc=nproc,
        steps=_count(steps),
        backend=backend,
        scatter=scatter,
        max_restarts=max_restarts,
        out=out,
        progress=log,
        timeout_s=timeout,
        rss=rss,
    )
    log(f"stored {out}")
    if (resident := peak_bytes(result, "memory.rss")) is not None:
        log(f"at most {format_bytes(resident)} of a rank were resident")
    print_summary(summarize(result), json=json)


def _changes(
    words: list[str] | None, dtype: str | None, optimizer: str | None, world_size: int
) -> list[str]:
    """What the options change of a scenario, as --set would."""
    extra = [f"numerics.dtype={dtype}"] if dtype is not None else []
    extra += [f"numerics.optimizer={optimizer}"] if optimizer is not None else []
    return [*(words or []), *extra, f"world_size={world_size}"]


def _refuse(what: str, **options: object) -> None:
    """Raise InputError if an option is given that would change nothing."""
    given = [f"--{name.replace('_', '-')}" for name, value in options.items() if value]
    if given:
        raise InputError(f"{' and '.join(given)} would change nothing of {what}: leave it out")


def _print_place(place: Path, out: Path, *, json: bool) -> None:
    log(f"collect all nodes in one place, then: zerosim merge {out} -o RUN")
    if json:
        print_json({"directory": str(place)})
    else:
        print_rows([("records", str(place))])


def _count(steps: str | None) -> int:
    if steps is None:
        return DEFAULT_STEPS
    if not steps.isdecimal() or int(steps) < 1:
        raise ScenarioError(f"steps is '{steps}': give how many to run, the first warms up")
    return int(steps)
