"""`zerosim lab`: a scenario on a few nodes that are network namespaces of this machine."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from zerosim.analysis.summary import summarize
from zerosim.cli.options import Json, Words
from zerosim.cli.output import log, print_json, print_rows
from zerosim.cli.runtime import runtime
from zerosim.cli.summary import summary_rows
from zerosim.errors import InputError
from zerosim.scenario import load_scenario
from zerosim.store import run_path
from zerosim.trace import Trace
from zerosim.units import format_bytes, read_delay, read_rate

Source = Annotated[
    str | None, typer.Argument(metavar="SCENARIO", help="A preset, TOML file or run.")
]
Nodes = Annotated[int, typer.Option("--nodes", help="Nodes, each a network namespace.")]
Ranks = Annotated[int, typer.Option("--ranks-per-node", help="Ranks on each node.")]
Inter = Annotated[
    str, typer.Option("--inter", metavar="RATE", help="Rate of a node's uplink, each way.")
]
Intra = Annotated[
    str | None,
    typer.Option("--intra", metavar="RATE", help="Rate inside a node (as fast as it goes)."),
]
Latency = Annotated[
    str, typer.Option("--latency", metavar="TIME", help="Delay between nodes, each way.")
]
Mtu = Annotated[int, typer.Option("--mtu", help="Bytes of a packet between nodes.")]
Out = Annotated[
    Path | None,
    typer.Option("-o", "--out", metavar="RUN", help="Store it here (runs/SCENARIO-lab)."),
]
Steps = Annotated[int, typer.Option("--steps", min=1, help="Steps to run; the first warms up.")]
Timeout = Annotated[
    float | None,
    typer.Option(
        "--timeout", min=1, help="Seconds in which something must move (as the links need)."
    ),
]
Scatter = Annotated[
    str,
    typer.Option("--scatter", help="How ranks reduce-scatter: native or all-to-all, in pieces."),
]
Paced = Annotated[
    bool, typer.Option("--paced", help="Links that are only paced: no root, nothing counted.")
]
Check = Annotated[bool, typer.Option("--check", help="Say what this machine can do; run nothing.")]


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("lab")(lab)


def lab(
    scenario: Source = None,
    nodes: Nodes = 2,
    ranks_per_node: Ranks = 2,
    inter: Inter = "200Mbit",
    intra: Intra = None,
    latency: Latency = "0us",
    mtu: Mtu = 1500,
    steps: Steps = 4,
    timeout: Timeout = None,
    scatter: Scatter = "native",
    paced: Paced = False,
    words: Words = None,
    out: Out = None,
    check: Check = False,
    json: Json = False,
) -> None:
    """Run a scenario's plan with real ranks on nodes whose links have the bandwidth you say.

    Needs Linux, and root or a user namespace; nothing of the host's network is touched. Without them,
    links are paced.
    """
    if check:
        _check(json=json)
        return
    if scenario is None:
        raise InputError("no scenario is given: name a preset, a TOML file or a run")
    shape = runtime("lab.shape").Shape(
        nodes,
        ranks_per_node,
        read_rate(inter, "--inter"),
        None if intra is None else read_rate(intra, "--intra"),
        read_delay(latency, "--latency"),
        mtu,
    )
    chosen = load_scenario(scenario, [*(words or []), f"world_size={shape.world_size}"])
    out = out or run_path(Path("runs"), f"{chosen.name}-lab")
    trace = _lab(paced=paced)(
        chosen,
        shape,
        steps=steps,
        out=out,
        progress=log,
        timeout_s=timeout,
        scatter=scatter,
    )
    log(f"stored {out}")
    summary = summarize(trace)
    if json:
        print_json(summary | {"links": trace.provenance.get("links", [])})
    else:
        print_rows([*summary_rows(summary), *_links(trace)])


def _lab(*, paced: bool) -> Any:  # noqa: ANN401 - `run_lab` or `run_paced`
    """How to run: in namespaces if this machine can make them, else on paced links, and says so."""
    why = None if paced else runtime("lab.check").obstacle()
    if why is not None:
        log(f"{why}; links are paced instead, see `zerosim lab --check`")
    if paced or why is not None:
        return runtime("lab.paced").run_paced
    return runtime("lab.run").run_lab


def _links(trace: Trace) -> list[tuple[str, str]]:
    return [
        (
            f"node {link['node']}",
            f"sent {_counted(link, 'sent')}; inside {_counted(link, 'inside')}",
        )
        for link in trace.provenance.get("links", ())
    ]


def _counted(link: dict[str, Any], what: str) -> str:
    payload, wanted = link[f"{what}_payload"], link[f"expected_{what}"]
    ratio = f" ({payload / wanted:.3f} of what the plan asks)" if wanted else ""
    return f"{format_bytes(payload)}{ratio}"


def _check(*, json: bool) -> None:
    found = asdict(runtime("lab.check").look())
    if json:
        print_json(found)
        return
    shown = found | {
        "memory_bytes": f"{format_bytes(found['memory_bytes'])} free",
        "torch": found["torch"] or "not installed",
        "latency": "can be added" if found["latency"] else "cannot be added (no sch_netem)",
        "why": found["why"] or "",
    }
    names = {"memory_bytes": "memory", "threads_of_two_ranks": "threads, 2 ranks"}
    print_rows([(names.get(n, n.replace("_", " ")), str(v)) for n, v in shown.items() if v != ""])
