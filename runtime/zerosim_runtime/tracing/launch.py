"""The parent of a traced program: starts it as it is, looks on, and makes a run of what its ranks wrote."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

import orjson

from zerosim.errors import RunError, RuntimeFailedError
from zerosim.trace import Trace
from zerosim_runtime.agents import LOOPBACK, python_path, talking_by
from zerosim_runtime.assignment import LOCK_FILE
from zerosim_runtime.capacity import check_torch
from zerosim_runtime.ending import end, ranks_of
from zerosim_runtime.rendezvous import Rendezvous, address_towards, interface_of
from zerosim_runtime.tracing.collect import PROGRAM_FILE, read_program
from zerosim_runtime.tracing.command import command_of, name_of, starts_ranks, told
from zerosim_runtime.tracing.hook import DIRECTORY_VARIABLE, EXTRAS_VARIABLE, STEPS_VARIABLE
from zerosim_runtime.tracing.keeping import Place, elsewhere, kept, make_place, problem, store
from zerosim_runtime.tracing.tracer import steps_of
from zerosim_runtime.tracing.verdict import OUTPUT_FILE, describe
from zerosim_runtime.watchdog import TIMEOUT_S, Watchdog

_POLL_S: Final = 0.5


@dataclass(frozen=True, slots=True)
class Options:
    """`steps`: those to keep, as `A:B`. `extras`: kineto, flight-recorder, nccl-log."""

    nproc: int = 2
    steps: str | None = None
    extras: tuple[str, ...] = ()
    timeout_s: float = TIMEOUT_S
    rendezvous: Rendezvous | None = None


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
    command = command_of(words, options.nproc, options.rendezvous)
    check_torch()
    place = make_place(out, options.rendezvous)
    keep = True
    try:
        program = {"name": name_of(words), "argv": told(words)}
        (place.directory / PROGRAM_FILE).write_bytes(orjson.dumps(program))
        progress(f"starting '{' '.join(told(words))}'")
        environment = _environment(words, place.directory, options)
        stored = _trace(command, place, environment, options.timeout_s)
        if stored is None:
            progress(elsewhere(place))
        keep = stored is None
    except (RuntimeFailedError, KeyboardInterrupt):
        keep = place.node
        raise
    except RunError as error:
        raise RuntimeFailedError(
            f"{error}: what the ranks recorded is kept, `zerosim merge {place.directory} -o RUN` reads it"
        ) from None
    finally:
        if not keep:
            place.remove()
    return stored


def _trace(
    command: list[str], place: Place, environment: dict[str, str], timeout_s: float
) -> Trace | None:
    """Run the program and store the run; None if ranks of other hosts are missing."""
    name = str(read_program(place.directory)["name"])
    try:
        code, failure = _run(command, place.directory, environment, timeout_s)
    except KeyboardInterrupt:
        stored = store(place, "it was stopped")
        raise KeyboardInterrupt(f"stopped{kept(place, stored)}") from None
    if code and not failure:
        failure = describe(place.directory, code, name)
    if not failure and elsewhere(place):
        return None
    stored = store(place, failure or None)
    if failure:
        raise RuntimeFailedError(f"{failure}{kept(place, stored)}")
    if stored is None:
        hint = problem(place) or "it never called init_process_group, or did nothing after it"
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
            # Ranks of other hosts are not seen from here, and what is not seen is not judged.
            said = next((said for _, said in ranks_of([directory]).values()), {})
            if said.get("WORLD_SIZE") == said.get("LOCAL_WORLD_SIZE", 0):
                watchdog = Watchdog(directory, said["WORLD_SIZE"], timeout_s)
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
    asked = {
        DIRECTORY_VARIABLE: str(directory),
        "PYTHONPATH": python_path(Path(__file__).with_name("boot")),
        EXTRAS_VARIABLE: ",".join(options.extras),
    }
    if options.steps is not None:
        asked[STEPS_VARIABLE] = options.steps
    if "nccl-log" in options.extras:
        (directory / "nccl").mkdir()
        asked |= {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_FILE": str(directory / "nccl" / "%h-%p.log")}
    # See Note [Times of NCCL].
    defaults = {"PYTHONUNBUFFERED": "1", "TORCH_NCCL_ENABLE_TIMING": "1"}
    if starts_ranks(words):
        # As torchrun would set it, without its warning.
        defaults["OMP_NUM_THREADS"] = "1"
        meeting = options.rendezvous
        defaults |= talking_by(
            LOOPBACK if meeting is None else interface_of(address_towards(meeting))
        )
    return defaults | os.environ | asked
