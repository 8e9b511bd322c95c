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
from zerosim.hardware.calibration import Calibration, calibration_text
from zerosim.units import format_bytes, format_ns
from zerosim.validation.measured import KINDS, MAX_RANKS
from zerosim.validation.measuring import (
    MAX_FILES,
    calibration_of,
    link_rates,
    reached,
    read_measured,
)
from zerosim.validation.nccl_tests import Said

Files = Annotated[
    list[Path], typer.Argument(metavar="FILE…", help="Logs of nccl-tests, its JSON, or CSV.")
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
    """Make a calibration from what you measured: collective times, and what your links reach.

    With --collectives, FILEs are what nccl-tests printed, or wrote with -J, or a CSV with the columns
    collective, ranks, nodes, bytes and time_us. `zerosim simulate --calibration` takes the result.
    """
    if not collectives:
        raise MeasurementError("say what the files are of: give --collectives for nccl-tests")
    if len(files) > MAX_FILES:
        raise MeasurementError(f"{len(files)} files are given: give at most {MAX_FILES}")
    if out is not None:
        check_out(out)
    kinds = {str(kind): kind for kind in KINDS}
    if collective is not None and collective not in kinds:
        raise UnknownNameError("collective", collective, kinds)
    said = Said(None if collective is None else kinds[collective], ranks, nodes)
    logs = [read_measured(path, said) for path in files]
    found = calibration_of(logs, nodes, source)
    if out is not None:
        write_out(out, calibration_text(found).encode())
        log(f"wrote {out}")
    if json:
        print_json(_record(found))
    else:
        _print(found)


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
