"""The parent of a traced program: starts it as it is, looks on, and makes a run of what its ranks wrote."""

from __future__ import annotations

import fcntl
import importlib.util
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

import orjson

import zerosim
from zerosim.errors import RunError, RuntimeFailedError
from zerosim.store import check_place, save_run
from zerosim.trace import Trace
from zerosim_runtime.assignment import LOCK_FILE
from zerosim_runtime.ending import end
from zerosim_runtime.tracing.collect import PROGRAM_FILE, collect, read_program
from zerosim_runtime.tracing.command import command_of, name_of, starts_ranks, told
from zerosim_runtime.tracing.hook import DIRECTORY_VARIABLE
from zerosim_runtime.tracing.log import read_logs
from zerosim_runtime.tracing.tracer import steps_of
from zerosim_runtime.tracing.verdict import OUTPUT_FILE, describe
from zerosim_runtime.watchdog import TIMEOUT_S, Watchdog

_POLL_S: Final = 0.5
_RANK_FILES: Final = ("rank-*.jsonl", "rank-*.ring", LOCK_FILE, PROGRAM_FILE)
"""What a run does not keep once it has been collected."""


@dataclass(frozen=True, slots=True)
class Options:
    """`steps`: those to keep, as `A:B`. `extras`: kineto, flight-recorder, nccl-log, rss."""

    nproc: int = 2
    steps: str | None = None
    extras: tuple[str, ...] = ()
    timeout_s: float = TIMEOUT_S


def trace_program(
    words: Sequence[str],
    out: Path,
    options: Options,
    progress: Callable[[str], None] = lambda _: None,
) -> Trace | None:
    """Run a program with its ranks traced, and store what they recorded as `out`.

    None if ranks of other nodes are missing: then `zerosim merge` makes the run. The program's output
    goes to stderr, and is kept with the run. Raises InputError for what cannot be started,
    RuntimeFailedError if it fails or issues no collective, KeyboardInterrupt on Ctrl-C: then too, what was
    recorded is stored, and no process stays behind.
    """
    steps_of(options.steps)
    command = command_of(words, options.nproc)
    if importlib.util.find_spec("torch") is None:
        raise RuntimeFailedError("torch is not installed: pip install torch==2.13.0")
    check_place(out)
    directory = _make_parts(out)
    keep = True
    try:
        program = {"name": name_of(words), "argv": told(words)}
        (directory / PROGRAM_FILE).write_bytes(orjson.dumps(program))
        progress(f"starting '{' '.join(told(words))}'")
        environment = _environment(words, directory, options)
        stored = _trace(command, directory, environment, out, options.timeout_s)
        if stored is None:
            progress(_elsewhere(directory))
        keep = stored is None
    except (RuntimeFailedError, KeyboardInterrupt):
        keep = False
        raise
    finally:
        if not keep:
            shutil.rmtree(directory, ignore_errors=True)
    return stored


def _trace(
    command: list[str], directory: Path, environment: dict[str, str], out: Path, timeout_s: float
) -> Trace | None:
    """Run the program and store the run; None if ranks of other nodes are missing."""
    name = str(read_program(directory)["name"])
    try:
        code, failure = _run(command, directory, environment, timeout_s)
    except KeyboardInterrupt:
        stored = _store(directory, out, "it was stopped")
        raise KeyboardInterrupt(f"stopped{_kept(stored, out)}") from None
    if code and not failure:
        failure = describe(directory, code, name)
    if not failure and _elsewhere(directory):
        return None
    stored = _store(directory, out, failure or None)
    if failure:
        raise RuntimeFailedError(f"{failure}{_kept(stored, out)}")
    if stored is None:
        hint = _problem(directory) or "it never called init_process_group, or did nothing after it"
        raise RuntimeFailedError(f"no collective was issued by '{name}': {hint}")
    return stored


def _run(
    command: list[str], directory: Path, environment: dict[str, str], timeout_s: float
) -> tuple[int, str]:
    """Run the program; returns its exit code, and why it was stopped, if it was."""
    with (directory / LOCK_FILE).open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
        )
        output = threading.Thread(target=_copy, args=(process.stdout, directory), daemon=True)
        output.start()
        try:
            return _watch(process, directory, timeout_s)
        finally:
            end([process], [directory])
            output.join()


def _watch(process: subprocess.Popen[bytes], directory: Path, timeout_s: float) -> tuple[int, str]:
    """Until the program has ended, or the watchdog knows that it will not."""
    watchdog: Watchdog | None = None
    while process.poll() is None:
        with suppress(subprocess.TimeoutExpired):
            process.wait(_POLL_S)
        if watchdog is None:
            logs = read_logs(directory)
            # Ranks of other hosts are not seen from here, and what is not seen is not judged.
            if logs and len(logs) == int(logs[0].header["world_size"]):
                watchdog = Watchdog(directory, len(logs), timeout_s)
        elif (verdict := watchdog.look()) is not None:
            return 1, verdict.reason
    return process.returncode, ""


def _copy(source: IO[bytes] | None, directory: Path) -> None:
    """What the program says goes to stderr, and into its log."""
    if source is None:
        return
    with (directory / OUTPUT_FILE).open("wb") as log:
        while chunk := os.read(source.fileno(), 65_536):
            with suppress(OSError):
                log.write(chunk)
                log.flush()
            sys.stderr.write(chunk.decode(errors="replace"))
            sys.stderr.flush()


def _environment(words: Sequence[str], directory: Path, options: Options) -> dict[str, str]:
    """The environment of the program: where it finds the tracer, and what that should do."""
    homes = [Path(zerosim.__file__).parents[1], Path(__file__).parents[2]]
    paths = [
        Path(__file__).with_name("boot"),
        *homes,
        *filter(None, [os.environ.get("PYTHONPATH")]),
    ]
    asked = {
        DIRECTORY_VARIABLE: str(directory),
        "PYTHONPATH": os.pathsep.join(map(str, paths)),
        "ZEROSIM_TRACE_EXTRAS": ",".join(options.extras),
    }
    if options.steps is not None:
        asked["ZEROSIM_TRACE_STEPS"] = options.steps
    if "nccl-log" in options.extras:
        (directory / "nccl").mkdir()
        asked |= {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_FILE": str(directory / "nccl" / "%h-%p.log")}
    defaults = {"PYTHONUNBUFFERED": "1"}
    if starts_ranks(words):
        # As torchrun would set it, without its warning.
        defaults["OMP_NUM_THREADS"] = "1"
        if Path("/sys/class/net/lo").exists():
            # All ranks are on this machine; its host name may lead anywhere.
            defaults["GLOO_SOCKET_IFNAME"] = "lo"
    return defaults | os.environ | asked


def _make_parts(out: Path) -> Path:
    """`RUN.parts`, where the ranks write: beside the run, since ranks of other nodes may see it, too.

    It stays if the run cannot be stored, or the launcher is killed. Raises RunError if there is one.
    """
    directory = parts_of(out).absolute()
    try:
        directory.mkdir(parents=True)
    except FileExistsError:
        raise RunError(
            f"'{directory}' is left from an earlier run: `zerosim merge {directory} -o RUN` reads "
            "it; remove it, or choose another name with -o"
        ) from None
    except OSError as error:
        raise RunError(f"cannot write '{directory}': {error.strerror}") from None
    return directory


def parts_of(out: Path) -> Path:
    """Where the ranks of the run `out` write."""
    return out.with_name(f"{out.name}.parts")


def _store(directory: Path, out: Path, failure: str | None) -> Trace | None:
    """Store what there is; None if no rank recorded anything."""
    try:
        collected = collect(directory, failure=failure)
    except RuntimeFailedError:
        return None
    beside = _beside(directory)
    files = sorted(str(p.relative_to(beside)) for p in beside.rglob("*") if p.is_file())
    collected.provenance["files"] = files
    save_run(collected, out, beside)
    return collected


def _beside(directory: Path) -> Path:
    """A directory of what the run keeps besides its tables: logs, and what other tracers wrote."""
    beside = directory / "beside"
    beside.mkdir(exist_ok=True)
    dropped = {path for pattern in _RANK_FILES for path in directory.glob(pattern)}
    for path in sorted(directory.iterdir()):
        if path not in dropped and path != beside:
            path.rename(beside / path.name)
    return beside


def _elsewhere(directory: Path) -> str:
    """What to say if ranks have written on other nodes; nothing if all are here."""
    logs = read_logs(directory)
    world = max((int(log.header["world_size"]) for log in logs), default=0)
    if not logs or len(logs) >= world or any(log.status != "finished" for log in logs):
        return ""
    here = ", ".join(str(log.rank) for log in logs)
    return (
        f"ranks {here} of {world} are in '{directory}': bring what the other nodes have into one "
        f"directory, and `zerosim merge DIRECTORY -o RUN` makes the run"
    )


def _problem(directory: Path) -> str | None:
    """The first thing that the tracer could not do."""
    for place in (directory, directory / "beside"):
        with suppress(OSError):
            lines = (place / "tracer.log").read_text(encoding="utf-8").splitlines()
            return lines[0] if lines else None
    return None


def _kept(stored: Trace | None, out: Path) -> str:
    if stored is None:
        return ": no collective had been recorded"
    return f": what was recorded is kept as the unfinished run '{out}'"
