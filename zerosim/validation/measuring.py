"""A machine measured by its owner: logs become a calibration's series, and say what links reach."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final

from zerosim import __version__
from zerosim.cluster import Measured
from zerosim.collectives import bus_factor
from zerosim.errors import MeasurementError
from zerosim.hardware.calibration import Calibration
from zerosim.hardware.measured_series import MAX_SERIES, MAX_SIZES
from zerosim.kinds import Kind
from zerosim.validation.collective_rows import rows_from
from zerosim.validation.measured import Timing, read_text
from zerosim.validation.nccl_json import read_json_log
from zerosim.validation.nccl_tests import Log, Said, read_log

MAX_FILES: Final = 200
_RINGS: Final = (Kind.ALL_GATHER, Kind.REDUCE_SCATTER)
"""Collectives that NCCL runs as rings, so that their busbw is a link's."""

_DIGITS: Final = 6
"""More than any benchmark prints."""


@dataclass(frozen=True, slots=True)
class Reach:
    """What a series reaches: bus bandwidth at its largest size, and the time of its smallest."""

    kind: str
    n_ranks: int
    n_nodes: int
    n_sizes: int
    largest: int
    busbw: float
    smallest: int
    latency_s: float


def read_measured(path: Path, said: Said) -> Log:
    """A log of nccl-tests (text, or the JSON of -J), or a CSV of collectives. Raises MeasurementError."""
    text = read_text(path)
    opening = text.lstrip()[:1]
    if opening == "{":
        return read_json_log(path.name, text, said)
    first = text.partition("\n")[0]
    if "collective" in first and "," in first and not first.startswith("#"):
        return _table(path.name, text)
    return read_log(path.name, text, said)


def _table(name: str, text: str) -> Log:
    found = rows_from(name, text)
    series = sorted({row.series for row in found.rows})
    if len(series) > 1:
        raise MeasurementError(
            f"{name} has {len(series)} series ({', '.join(series[:4])}, …): give one machine's"
        )
    gpus = sorted({row.gpu for row in found.rows})
    return Log(tuple(row.timing for row in found.rows), gpu=", ".join(gpus))


def calibration_of(logs: Sequence[Log], n_nodes: int | None, source: str) -> Calibration:
    """The measured series of some logs of one machine. Raises MeasurementError.

    Out of place and in place count alike: a size takes the median of its times. `n_nodes` is for logs
    that list no hosts; `source` says who measured. No clock time, host or path goes in.
    """
    gpus = sorted({log.gpu for log in logs if log.gpu})
    if len(gpus) > 1:
        raise MeasurementError(f"the logs are of {' and of '.join(gpus[:3])}: give one machine's")
    series = tuple(_series(group, source) for group in _groups(logs, n_nodes))
    if len(series) > MAX_SERIES:
        raise MeasurementError(f"the logs have {len(series)} series, over {MAX_SERIES}: give fewer")
    said = {
        "what": "collectives as nccl-tests measured them",
        "source": source,
        "gpu": ", ".join(gpus),
        "nccl": ", ".join(sorted({log.nccl for log in logs if log.nccl})),
        "launcher": ", ".join(sorted({log.launcher for log in logs if log.launcher})),
        "times": str(sum(len(log.timings) for log in logs)),
        "made_by": f"zerosim {__version__}",
    }
    return Calibration(
        provenance={name: _plain(text) for name, text in said.items() if text}, collective=series
    )


def reached(calibration: Calibration) -> tuple[Reach, ...]:
    """What each series of a calibration reaches."""
    return tuple(_reach(series) for series in calibration.collective)


def link_rates(calibration: Calibration) -> dict[str, float]:
    """The cluster's knobs that the series imply: bytes a second of the link inside and between nodes.

    Rings tell them; where none was measured, nothing is said.
    """
    found: dict[str, float] = {}
    for reach in reached(calibration):
        if reach.kind in _RINGS:
            knob = "intra_busbw" if reach.n_nodes == 1 else "inter_busbw"
            found[knob] = max(found.get(knob, 0.0), reach.busbw)
    return dict(sorted(found.items(), reverse=True))


def _groups(logs: Iterable[Log], n_nodes: int | None) -> list[list[Timing]]:
    groups: dict[tuple[str, int, int], list[Timing]] = {}
    for log in logs:
        for timing in log.timings:
            nodes = timing.n_nodes or n_nodes
            if nodes is None:
                raise MeasurementError(
                    f"{timing.kind} over {timing.n_ranks} ranks does not say on how many nodes: "
                    "give --nodes N"
                )
            groups.setdefault((str(timing.kind), timing.n_ranks, nodes), []).append(timing)
    for (kind, n_ranks, nodes), group in groups.items():
        if kind == Kind.P2P or len({timing.nbytes for timing in group}) > MAX_SIZES:
            raise MeasurementError(
                f"{kind} over {n_ranks} ranks on {nodes} nodes has no place in a table: leave it out"
            )
    return [[_on(timing, nodes) for timing in group] for (_, _, nodes), group in groups.items()]


def _on(timing: Timing, n_nodes: int) -> Timing:
    return Timing(timing.kind, timing.n_ranks, n_nodes, timing.nbytes, timing.seconds)


def _series(group: Sequence[Timing], source: str) -> Measured:
    by_size: dict[int, list[float]] = {}
    for timing in group:
        by_size.setdefault(timing.nbytes, []).append(timing.seconds)
    first = group[0]
    return Measured(
        kind=str(first.kind),
        n_ranks=first.n_ranks,
        n_nodes=first.n_nodes or 1,
        times=tuple((size, _short(median(by_size[size]))) for size in sorted(by_size)),
        source=_plain(source),
    )


def _short(seconds: float) -> float:
    return float(f"{seconds:.{_DIGITS}g}")


def _reach(series: Measured) -> Reach:
    (smallest, latency_s), (largest, seconds) = series.times[0], series.times[-1]
    factor = bus_factor(Kind(series.kind), series.n_ranks)
    return Reach(
        series.kind,
        series.n_ranks,
        series.n_nodes,
        len(series.times),
        largest,
        largest / seconds * factor,
        smallest,
        latency_s,
    )


def _plain(text: str) -> str:
    """Text of a stranger's log without control characters, at most a line long."""
    return "".join(letter if letter.isprintable() else " " for letter in text)[:200].strip()
