"""Run one fault in a process of its own, and say how it ended and what was left behind."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.faults.cases import PROGRAMS, Fault, Target
from zerosim.errors import RunError
from zerosim.store import load_run
from zerosim_runtime.ring import read_life, read_ring

START_S: Final = 150.0
"""How long ranks may take to get going on a busy machine."""
END_S: Final = 90.0
_WARM: Final = 30
"""Collectives that a rank has issued when it is struck."""
_HERE: Final = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Ended:
    """`seconds` from the fault to the end. `rows` None: no run was stored. `problem`: what was wrong."""

    fault: Fault
    seconds: float
    code: int
    sentence: str
    rows: int | None
    left: tuple[int, ...]
    litter: tuple[str, ...]
    problem: str


def strike(fault: Fault, timeout_s: float) -> Ended:
    """Let the fault happen; ranks that others wait for have `timeout_s`."""
    with _place(fault) as root:
        process = _start(fault, root, timeout_s)
        try:
            _await_strike(fault, root, process)
            begun = time.monotonic()
            _, said = process.communicate(timeout=END_S)
        finally:
            process.kill()
        left = _await_nobody(root)
        seconds = time.monotonic() - begun
        sentence = next((s for s in reversed(said.splitlines()) if s.startswith("zerosim: ")), "")
        # torchrun leaves its own directory behind when ranks of a program fail.
        names = {path.name for path in (root / "tmp").iterdir()}
        litter = tuple(sorted(name for name in names if not name.startswith("torchelastic_")))
        rows = _rows(root / "out" / "run")
        problem = _problem(fault, process.returncode, sentence, rows, left)
        return Ended(
            fault,
            seconds,
            process.returncode,
            sentence.removeprefix("zerosim: "),
            rows,
            left,
            litter,
            problem,
        )


def _problem(
    fault: Fault, code: int, sentence: str, rows: int | None, left: tuple[int, ...]
) -> str:
    wrong = [
        ("code", code != fault.code),
        ("sentence", re.search(fault.says, sentence) is None),
        ("rows", fault.rows and not rows),
        ("processes", bool(left)),
    ]
    return ", ".join(name for name, is_wrong in wrong if is_wrong)


@contextmanager
def _place(fault: Fault) -> Iterator[Path]:
    root = Path(tempfile.mkdtemp(prefix="faults-"))
    for name in ("tmp", "out"):
        (root / name).mkdir()
    mounted = None
    try:
        if fault.small is not None:
            mounted = root / fault.small[0]
            size = f"size={fault.small[1]}"
            subprocess.run(["mount", "-t", "tmpfs", "-o", size, "none", mounted], check=True)
        yield root
    finally:
        if mounted is not None:
            subprocess.run(["umount", mounted], check=False)
        shutil.rmtree(root, ignore_errors=True)


def _start(fault: Fault, root: Path, timeout_s: float) -> subprocess.Popen[str]:
    paths = [*map(str, (_HERE, _HERE / "app", _HERE / "runtime"))]
    planted = {"FAULT_MARK": str(root / "mark")}
    if fault.plant and fault.plant != "program":
        planted["FAULT"] = fault.plant
        paths.insert(0, str(Path(__file__).with_name("injected")))
    out = str(root / "out" / "run")
    command = ["-m", "zerosim", "trace", "--nproc", "2", "--timeout", f"{timeout_s:g}", "-o", out]
    if fault.program:
        command = [str(PROGRAMS / fault.program), out, f"{timeout_s:g}"]
    return subprocess.Popen(
        [sys.executable, *command, *fault.words],
        env=os.environ
        | {"TMPDIR": str(root / "tmp"), "PYTHONPATH": os.pathsep.join(paths)}
        | {"OMP_NUM_THREADS": "1"}
        | planted,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def _await_strike(fault: Fault, root: Path, process: subprocess.Popen[str]) -> None:
    """Until the fault has struck, by itself or by us."""
    deadline = time.monotonic() + START_S
    while process.poll() is None and time.monotonic() < deadline:
        if fault.strike is not None:
            pids = _warm(root)
            if pids:
                fault.strike(Target(process.pid, pids))
                return
        elif (root / "mark").exists() or (not fault.plant and _warm(root)):
            return
        time.sleep(0.02)


def _warm(root: Path) -> tuple[int, ...]:
    """The pids of the ranks, once both have done a few steps."""
    for place in (*(root / "tmp").glob("zerosim-*"), *(root / "out").glob("*.parts")):
        if all(len(read_ring(place, rank)) > _WARM for rank in range(2)):
            lives = [read_life(place, rank) for rank in range(2)]
            return tuple(life.pid for life in lives if life is not None)
    return ()


def _await_nobody(root: Path) -> tuple[int, ...]:
    """Processes of the run that are still there after 30 s."""
    deadline = time.monotonic() + 30
    while (left := _processes(root)) and time.monotonic() < deadline:
        time.sleep(0.05)
    for pid in left:
        with suppress(ProcessLookupError):
            os.kill(pid, 9)
    return left


def _processes(root: Path) -> tuple[int, ...]:
    found: list[int] = []
    for place in Path("/proc").iterdir():
        if place.name.isdecimal() and int(place.name) != os.getpid():
            with suppress(OSError):
                if os.fsencode(root) in (place / "environ").read_bytes():
                    found.append(int(place.name))
    return tuple(found)


def _rows(out: Path) -> int | None:
    try:
        return load_run(out).spans.height
    except RunError:
        return None
