"""`zerosim replay`: a run once more, on another machine in the simulator, or on real ranks."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from zerosim.analysis.comparison import compare
from zerosim.analysis.summary import summarize
from zerosim.cli.options import Json, Words
from zerosim.cli.output import log, print_json, print_rows
from zerosim.cli.runtime import runtime
from zerosim.cli.summary import summary_rows
from zerosim.errors import InputError, ScenarioError
from zerosim.replay import Replay, replay_of, retime
from zerosim.scenario import Scenario, cluster_of
from zerosim.store import load_run, save_run
from zerosim.trace import Trace
from zerosim.units import format_ns

Run = Annotated[Path, typer.Argument(metavar="RUN", help="A run directory, whoever made it.")]
Speed = Annotated[
    float, typer.Option("--speed", metavar="X", help="Compute X times as fast as the run did.")
]
Real = Annotated[bool, typer.Option("--real", help="Issue its collectives with real ranks.")]
Backend = Annotated[str, typer.Option("--backend", help="Of real ranks: auto, gloo or nccl.")]
Out = Annotated[Path | None, typer.Option("-o", "--out", metavar="RUN", help="Store it here.")]


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("replay")(replay)


def replay(
    run: Run,
    words: Words = None,
    speed: Speed = 1.0,
    real: Real = False,
    backend: Backend = "auto",
    out: Out = None,
    json: Json = False,
) -> None:
    """Re-time a run: its computing takes what it took, its collectives what another cluster needs.

    `--set cluster=NAME` or `--set cluster.inter_busbw=…` say which cluster; without any, collectives
    take what they took, which shows how well the run is understood.
    """
    if real and speed != 1.0:
        raise InputError(
            f"--speed {speed:g} beside --real: real ranks sleep as long as the run computed: give one"
        )
    if out is not None and out.resolve() == run.resolve():
        raise InputError(f"-o {out} is the run itself, which would be lost: give another place")
    trace = load_run(run)
    program = replay_of(trace)
    machine = _on(trace, program, words or [])
    if real:
        result = _really(trace, program, machine, backend, out)
    else:
        result = retime(trace, program, cluster_of(machine), speed=speed, priced=bool(words))
        if out is not None:
            save_run(result, out)
            log(f"stored {out}")
    summary = summarize(result)
    took = result.spans["end_ns"].max()
    matched = compare(trace, result)
    answer: dict[str, Any] = {
        "source_step_ns": summarize(trace)["step_ns"],
        "source_ns": program.source_ns,
        "replayed_ns": took,
        "ratio": took / program.source_ns if isinstance(took, int) and program.source_ns else None,
        "collectives_kept": program.kept,
        "cluster": machine.cluster.name if words and not real else None,
        "matched_share": matched["matched_share"],
    }
    if json:
        print_json(summary | answer)
        return
    run_row, order, step, *rest = summary_rows(summary)
    print_rows([run_row, order, step, *_said(answer), *rest])


def _really(
    trace: Trace, program: Replay, scenario: Scenario, backend: str, out: Path | None
) -> Trace:
    result: Trace = runtime("replaying.launch").replay_really(
        trace, program, scenario, backend=backend, out=out, progress=log
    )
    if out is not None:
        log(f"stored {out}")
    return result


def _on(trace: Trace, program: Replay, words: list[str]) -> Scenario:
    """The scenario of the run with another cluster. Raises ScenarioError for any other change."""
    own = trace.meta.scenario
    base = Scenario(trace.meta.name) if own is None else Scenario.from_dict(own)
    base = base.with_set([f"world_size={program.plan.world_size}"])
    changed = base.with_set(words)
    sections = (s for s in ("workload", "schedule", "numerics", "run"))
    other = next((s for s in sections if getattr(changed, s) != getattr(base, s)), None)
    if other is not None:
        raise ScenarioError(
            f"--set changes the {other}, and a replay does what the run did: "
            "give cluster or one of its fields, or use `zerosim simulate`"
        )
    if changed.cluster.world_size != program.plan.world_size:
        raise ScenarioError(
            f"world_size is {changed.cluster.world_size}, the run has {program.plan.world_size} "
            "ranks: leave it, or use `zerosim simulate`"
        )
    return changed


def _said(answer: dict[str, Any]) -> list[tuple[str, str]]:
    ratio = answer["ratio"]
    before, now = format_ns(answer["source_ns"]), format_ns(answer["replayed_ns"])
    rows = [
        ("before", f"{format_ns(answer['source_step_ns'])} a step"),
        ("in all", f"{now} ({'unknown' if ratio is None else f'{ratio:.3f}'} of {before} before)"),
    ]
    if answer["collectives_kept"]:
        kept = answer["collectives_kept"]
        rows.append(("as measured", f"{kept} collectives, whose size or group nobody knows"))
    return rows
