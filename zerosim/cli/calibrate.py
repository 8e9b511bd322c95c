"""`zerosim calibrate`: a machine as its owner measured it, as a document that other commands take."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from zerosim.cli.files import check_out, write_out
from zerosim.cli.options import Json
from zerosim.cli.output import log, print_json, print_rows, print_table
from zerosim.errors import MeasurementError, UnknownNameError
from zerosim.hardware.calibration import Calibration, FabricConstants, calibration_text
from zerosim.store import load_run
from zerosim.trace import Trace
from zerosim.units import NS_PER_S, format_bytes, format_ns
from zerosim.validation.measured import KINDS, MAX_RANKS
from zerosim.validation.measuring import (
    MAX_FILES,
    calibration_of,
    link_rates,
    reached,
    read_measured,
)
from zerosim.validation.nccl_tests import Said
from zerosim.validation.run_calibration import calibrated

Files = Annotated[
    list[Path],
    typer.Argument(metavar="FILE…", help="Runs of real ranks; or logs of nccl-tests, JSON, CSV."),
]
Collectives = Annotated[
    bool, typer.Option("--collectives", help="The files are of collectives (nccl-tests).")
]
Named = Annotated[
    str | None,
    typer.Option("--collective", metavar="KIND", help="What logs measured that do not say it."),
]
Ranks = Annotated[
    int | None, typer.Option("--ranks", min=2, max=MAX_RANKS, help="Of logs that list none.")
]
Nodes = Annotated[
    int | None, typer.Option("--nodes", min=1, max=MAX_RANKS, help="Of logs that list no hosts.")
]
Source = Annotated[
    str, typer.Option("--source", metavar="TEXT", help="Who measured it, for those who read it.")
]
Out = Annotated[
    Path | None, typer.Option("-o", "--out", metavar="CALIBRATION", help="Write it here (TOML).")
]


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("calibrate")(calibrate)


def calibrate(
    files: Files,
    collectives: Collectives = False,
    collective: Named = None,
    ranks: Ranks = None,
    nodes: Nodes = None,
    source: Source = "own nccl-tests",
    out: Out = None,
    json: Json = False,
) -> None:
    """Make a calibration from what you measured: runs of real ranks, or times of collectives.

    Runs that `zerosim trace` or `zerosim lab` made say what each layer's computing, issuing and the
    links take: other schedules and bandwidths are predicted from them.

    With --collectives, FILEs are what nccl-tests printed, or wrote with -J, or a CSV with the columns
    collective, ranks, nodes, bytes and time_us. `zerosim simulate --calibration` takes the result.
    """
    if len(files) > MAX_FILES:
        raise MeasurementError(f"{len(files)} files are given: give at most {MAX_FILES}")
    if out is not None:
        check_out(out)
    if not collectives:
        found = calibrated([_run_at(path) for path in files])
        _written(found, out)
        print_json(found.to_dict()) if json else _print_run(found)
        return
    kinds = {str(kind): kind for kind in KINDS}
    if collective is not None and collective not in kinds:
        raise UnknownNameError("collective", collective, kinds)
    said = Said(None if collective is None else kinds[collective], ranks, nodes)
    logs = [read_measured(path, said) for path in files]
    found = calibration_of(logs, nodes, source)
    _written(found, out)
    if json:
        print_json(_record(found))
    else:
        _print(found)


def _run_at(path: Path) -> Trace:
    if not path.is_dir():
        raise MeasurementError(
            f"'{path}' is no run: give a directory that zerosim trace or zerosim lab stored, or "
            "--collectives for logs of nccl-tests"
        )
    return load_run(path)


def _written(found: Calibration, out: Path | None) -> None:
    if out is not None:
        write_out(out, calibration_text(found).encode())
        log(f"wrote {out}")


def _print_run(found: Calibration) -> None:
    print_rows([(name, text) for name, text in found.provenance.items() if name != "what"])
    for name, link in found.fabric.items():
        print_rows([(name, _link(link))])
    if not found.fabric:
        print_rows([("links", "not found: give runs of zerosim lab, or of --backend paced:RATE")])
    for name, cost in found.launcher.items():
        each = (
            f"{format_ns(cost.issue_s * 1e9)} a collective, {format_ns(cost.kernel_s * 1e9)} an op"
        )
        print_rows([(name, each)])
    print_rows([("", "")])
    print_table(
        ("op", "unit", "takes"),
        [(op.kind, op.unit, format_ns(op.seconds * 1e9)) for op in found.op],
    )
    print_rows([("", ""), ("use", "zerosim simulate … --calibration FILE")])


def _link(link: FabricConstants) -> str:
    words = [
        f"{link.share:.1%} of its rate",
        f"{format_ns(link.net_base_s * NS_PER_S)} a collective",
    ]
    if link.host_busbw is not None:
        words.append(f"hosts push {format_bytes(link.host_busbw)} a second")
    if link.computing_busbw is not None:
        words.append(f"{format_bytes(link.computing_busbw)} while they compute")
    return ", ".join(words)


def _record(found: Calibration) -> dict[str, Any]:
    return {
        "provenance": found.provenance,
        "series": [asdict(reach) for reach in reached(found)],
        "implied": link_rates(found),
    }


def _print(found: Calibration) -> None:
    print_rows([(name, text) for name, text in found.provenance.items() if name != "what"])
    print_rows([("", "")])
    header = ("collective", "ranks", "nodes", "sizes", "busbw", "at", "latency", "at")
    rows: list[tuple[str, ...]] = [
        (
            reach.kind,
            str(reach.n_ranks),
            str(reach.n_nodes),
            str(reach.n_sizes),
            f"{reach.busbw / 1e9:.1f} GB/s",
            format_bytes(reach.largest),
            format_ns(reach.latency_s * 1e9),
            format_bytes(reach.smallest),
        )
        for reach in reached(found)
    ]
    print_table(header, rows)
    print_rows([("", "")])
    rates = link_rates(found)
    use = ("use", "zerosim simulate … --calibration FILE --set cluster.collectives=table")
    print_rows(
        [*(("implies", f"--set cluster.{name}={rate:.4g}") for name, rate in rates.items()), use]
    )
