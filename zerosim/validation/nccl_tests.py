"""nccl-tests as it prints: its table of sizes and times, and what its head says about the ranks."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from zerosim.collectives import bus_factor
from zerosim.errors import MeasurementError
from zerosim.kinds import Kind
from zerosim.validation.measured import MAX_ROWS, Timing, checked, torch_dtype

PROGRAMS: Final[dict[str, Kind]] = {
    "all_gather": Kind.ALL_GATHER,
    "all_reduce": Kind.ALL_REDUCE,
    "alltoall": Kind.ALL_TO_ALL,
    "broadcast": Kind.BROADCAST,
    "reduce": Kind.REDUCE,
    "reduce_scatter": Kind.REDUCE_SCATTER,
    "sendrecv": Kind.P2P,
}
"""The programs of nccl-tests (NAME_perf) whose collectives have a cost model."""
_PROGRAM: Final = re.compile(r"\b([a-z_]+)_perf\b")
_RANK: Final = re.compile(
    r"#\s+Rank\s+(\d+)\s+(?:Group\s+\d+\s+)?Pid\s+(\d+) on\s+(\S+) device\s+\d+ \[[^\]]*\]\s*(.*)"
)
_VERSION: Final = re.compile(r"NCCL version (\d+(?:\.\d+)+)|nccl-library=(\d+)")
_HEADER: Final = re.compile(r"#\s+size\s+count\s+type\s")
_ROW: Final = re.compile(r"(?:^|[\s:>])(\d{1,18}) +(\d+) +([a-z][a-z0-9_]*) +(.*\d.*)$")
_OPENS: Final = re.compile(r"^\s*\d+\s+\d+\s+[a-z]")
_SIDES: Final = ((0, False), (4, True))
"""Out of place stands first, in place four columns on: time, algbw, busbw, wrong elements."""
_TELLING: Final = 1.0
"""GB/s; rates are printed with two decimals."""
_ROUNDING: Final = 0.02
_MAX_LINES: Final = 1_000_000
_MAX_LINE: Final = 2048
"""Longer lines are not nccl-tests'; what stands at their beginning is read."""
_FIVE_DIGITS: Final = 10_000
"""NCCL's version code from 2.9 on; before, 2.8.3 was 2803."""


@dataclass(frozen=True, slots=True)
class Said:
    """What was said beside a log, for what it does not say itself: None where it need not be."""

    kind: Kind | None = None
    n_ranks: int | None = None
    n_nodes: int | None = None


@dataclass(frozen=True, slots=True)
class Log:
    """One run of one program. "" and None where the log does not say.

    `launcher`: `process-per-gpu`, or `one-process` where one process drives several of a node's GPUs.
    `skipped` counts rows of no bytes.
    """

    timings: tuple[Timing, ...]
    gpu: str = ""
    launcher: str = ""
    nccl: str = ""
    skipped: int = 0


@dataclass(slots=True)
class _Head:
    """What the lines before a table have said so far."""

    program: str = ""
    ranks: dict[int, tuple[str, str]] | None = None
    gpu: str = ""
    nccl: str = ""
    columns: tuple[str, ...] = ()

    def launcher(self) -> str:
        """Which launcher class, from the process ids of the ranks."""
        if not self.ranks:
            return ""
        each = len(set(self.ranks.values())) == len(self.ranks)
        return "process-per-gpu" if each else "one-process"

    def n_nodes(self) -> int | None:
        """Different hosts among the ranks."""
        return len({host for host, _ in self.ranks.values()}) if self.ranks else None


def read_log(name: str, text: str, said: Said) -> Log:
    """The rows of a text log, which `name` stands for in errors. Raises MeasurementError."""
    head, timings, skipped = _Head(), list[Timing](), 0
    if text.count("\n") > _MAX_LINES:
        raise MeasurementError(f"{name} has more than {_MAX_LINES} lines: give its tables alone")
    for number, whole in enumerate(text.splitlines(), start=1):
        line, place = whole[:_MAX_LINE], f"{name} line {number}"
        if "#" in line and not _ROW.search(line):
            _read_head(head, line, place)
        elif head.columns and (found := _ROW.search(line)) is not None:
            if int(found[1]) == 0:
                skipped += 1
                continue
            timings += _row(found, head, said, place)
        elif head.columns and _OPENS.search(line):
            raise MeasurementError(f"{place} ends early: copy the log again, or leave the line out")
        if len(timings) > MAX_ROWS:
            raise MeasurementError(f"{name} has more than {MAX_ROWS} times: give fewer runs a file")
    if not timings:
        raise MeasurementError(
            f"{name} has no table of nccl-tests (size, count, type, time …): give what it printed"
        )
    return Log(tuple(timings), head.gpu, head.launcher(), head.nccl, skipped)


def program_kind(text: str) -> Kind | None:
    """The collective of the program (`all_gather_perf`) that `text` names, if it names one."""
    found = _PROGRAM.search(text)
    return None if found is None else PROGRAMS.get(found[1])


def _read_head(head: _Head, line: str, place: str) -> None:
    if (rank := _RANK.search(line)) is not None:
        head.ranks = head.ranks or {}
        if int(rank[1]) == 0 and 0 in head.ranks:
            head.ranks = {}  # another run begins
        head.ranks[int(rank[1])] = (rank[3], rank[2])
        head.gpu = rank[4].strip()
    elif "_perf" in line:
        head.program = line
    elif (version := _VERSION.search(line)) is not None:
        head.nccl = version[1] or version_text(int(version[2][:9]))
    elif _HEADER.search(line):
        head.columns = tuple(line[line.index("size") :].split())
        if "time" not in head.columns:
            raise MeasurementError(
                f"{place}: the table has no column 'time' (cputime is the host's): run without -C 1"
            )


def version_text(number: int) -> str:
    """`2.18.3` for NCCL's version code 21803."""
    major, rest = divmod(number, 10_000 if number >= _FIVE_DIGITS else 1_000)
    return f"{major}.{rest // 100}.{rest % 100}"


def _row(found: re.Match[str], head: _Head, said: Said, place: str) -> list[Timing]:
    leading = head.columns.index("time") - 3
    cells = found[4].split()[leading:]
    n_ranks, n_nodes = said.n_ranks, said.n_nodes
    if head.ranks:
        n_ranks, n_nodes = len(head.ranks), head.n_nodes()
    kind = program_kind(head.program) or said.kind
    if kind is None:
        raise MeasurementError(
            f"{place}: the log does not name its collective: give --collective, e.g. all_gather"
        )
    if n_ranks is None:
        raise MeasurementError(f"{place}: the log does not list its ranks: give --ranks N")
    timings = []
    for at, in_place in _SIDES:
        if len(cells) <= at or cells[at] == "N/A":
            continue
        if len(cells) < at + 3:
            raise MeasurementError(f"{place} ends early: copy the log again, or leave the line out")
        _refuse_wrong(cells[at + 3 : at + 4], head.columns, place)
        timing = Timing(
            kind=kind,
            n_ranks=n_ranks,
            n_nodes=n_nodes,
            nbytes=int(found[1]),
            seconds=number(cells[at], place) / 1e6,
            dtype=torch_dtype(found[3]),
            in_place=in_place,
        )
        _refuse_factor(timing, cells[at + 1 : at + 3], place)
        timings.append(checked(timing, place))
    return timings


def _refuse_factor(timing: Timing, rates: list[str], place: str) -> None:
    """The factor busbw / algbw tells collective and ranks; they must be those that were named."""
    algbw, busbw = (number(text, place) for text in rates)
    factor = bus_factor(timing.kind, timing.n_ranks) if timing.n_ranks > 0 else 0.0
    if algbw >= _TELLING and not abs(busbw / algbw - factor) < _ROUNDING:
        raise MeasurementError(
            f"{place}: busbw is {busbw / algbw:.3f} of algbw, but {factor:.3f} for "
            f"{timing.kind} of {timing.n_ranks} ranks: give the right --collective and --ranks"
        )


def _refuse_wrong(cell: list[str], columns: tuple[str, ...], place: str) -> None:
    if cell and cell[0] != "N/A" and "#wrong" in columns and number(cell[0], place) > 0:
        raise MeasurementError(
            f"{place}: {cell[0]} elements came out wrong: mend the machine and run again"
        )


def number(text: str, place: str) -> float:
    """A number of a table. Raises MeasurementError."""
    try:
        return float(text)
    except ValueError:
        raise MeasurementError(f"{place}: '{text[:40]}' is no number: copy the log again") from None
