"""How fast traces are imported: against orjson alone, against HTA, and in how much memory.

`python benchmarks/importing.py` makes a synthetic Kineto set of 8 ranks (`--megabytes 1000`; a set of
your own with `--folder`) and reads it in processes of its own, in turns, so that what else the machine
does falls on all alike. It prints ratios of the shortest times, and exits 1 if a bar is missed.
HTA is compared where it is installed (`--hta PYTHON` names an interpreter that has it).
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import orjson

ROOT: Final = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.engine import Figure  # noqa: E402 - the repository may not be installed
from benchmarks.kineto_set import write_set  # noqa: E402 - same

MEASURED: Final = """
import gc, json, resource, sys, time
from pathlib import Path
files = sorted(Path(sys.argv[1]).iterdir())
{prepare}
wall, cpu = time.perf_counter(), time.process_time()
{work}
print(json.dumps([
    time.perf_counter() - wall, time.process_time() - cpu,
    resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
]))
"""
ORJSON: Final = MEASURED.format(
    prepare="import orjson\ngc.disable()",
    work="for file in files:\n    raw = file.read_bytes()\n    orjson.loads(raw)\n    del raw",
)
"""Without the collector, which would take as long again: the harder bar."""

ZEROSIM: Final = MEASURED.format(
    prepare="import polars\nfrom zerosim.importers import read", work="read(files)"
)
HTA: Final = MEASURED.format(
    prepare="import logging\nlogging.disable()\nfrom hta.common.trace import Trace",
    work=(
        "trace = Trace(trace_files={i: str(f) for i, f in enumerate(files)}, trace_dir='')\n"
        "trace.parse_traces(use_multiprocessing=False)"
    ),
)


@dataclass(frozen=True, slots=True)
class Taken:
    """What one reading of all files took."""

    wall_s: float
    cpu_s: float
    peak_gib: float


def taken(program: str, folder: Path, python: str = sys.executable) -> Taken | None:
    """One reading in a process of its own; None if it fails there."""
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [python, "-c", program, str(folder)],
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": path},
    )
    return Taken(*orjson.loads(done.stdout.splitlines()[-1])) if done.returncode == 0 else None


def best(all_taken: list[Taken | None]) -> Taken | None:
    """The least of each; None if a reading failed."""
    known = [t for t in all_taken if t is not None]
    if len(known) < len(all_taken):
        return None
    return Taken(
        min(t.wall_s for t in known), min(t.cpu_s for t in known), max(t.peak_gib for t in known)
    )


def figures(folder: Path, hta: str, rounds: int) -> list[Figure]:
    """All figures of one run."""
    size = sum(file.stat().st_size for file in folder.iterdir())
    parsed, ours = [], []
    for _ in range(rounds):
        parsed.append(taken(ORJSON, folder))
        ours.append(taken(ZEROSIM, folder))
    theirs = taken(HTA, folder, hta)
    alone, mine = best(parsed), best(ours)
    if alone is None or mine is None:
        raise SystemExit("a reading failed: run its program by hand")
    found = [
        Figure("import throughput ÷ orjson.loads alone", alone.cpu_s / mine.cpu_s, at_least=0.35),
        Figure("a GB imported in, wall", mine.wall_s / size * 1e9, "s", at_most=60),
        Figure("a GB imported in, CPU", mine.cpu_s / size * 1e9, "s"),
        Figure(f"peak memory for {size / 1e6:.0f} MB", mine.peak_gib, "GiB", at_most=2.5),
        Figure("orjson.loads, file by file, peak memory", alone.peak_gib, "GiB"),
    ]
    if theirs is not None:
        ratio = theirs.cpu_s / mine.cpu_s
        found += [
            Figure("HTA's parse ÷ import", ratio, at_least=3),
            Figure("HTA's peak memory", theirs.peak_gib, "GiB"),
        ]
    else:
        print("HTA is not installed: not compared")
    return found


def main() -> int:
    """Print the figures with the load of the machine; 1 if a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=160)
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--hta", default=sys.executable)
    asked = parser.parse_args()
    print(f"load {os.getloadavg()[0]:.2f}, {os.cpu_count()} cores")
    with tempfile.TemporaryDirectory() as folder:
        if asked.folder is None:
            write_set(Path(folder), asked.megabytes * 10**6, asked.ranks)
        measured = figures(asked.folder or Path(folder), asked.hta, asked.rounds)
    for figure in measured:
        print(figure.line)
    print(f"load {os.getloadavg()[0]:.2f}")
    return 0 if all(figure.passed for figure in measured) else 1


if __name__ == "__main__":
    sys.exit(main())
