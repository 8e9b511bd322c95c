"""Where the ranks of a traced program write, and the run that is made of it and kept."""

from __future__ import annotations

import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from zerosim.errors import RunError, RuntimeFailedError
from zerosim.store import check_place, save_run
from zerosim.trace import Trace
from zerosim_runtime.assignment import LOCK_FILE
from zerosim_runtime.node import node_directory
from zerosim_runtime.rendezvous import Rendezvous
from zerosim_runtime.tracing.collect import PROGRAM_FILE, collect
from zerosim_runtime.tracing.log import read_logs

_RANK_FILES: Final = ("rank-*.jsonl", "rank-*.ring", LOCK_FILE, PROGRAM_FILE)
"""What a run does not keep once it has been collected."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where ranks write, and the run that becomes of it; of one node of several, `zerosim merge` makes that."""

    directory: Path
    out: Path
    node: bool = False

    def remove(self) -> None:
        """Remove what the ranks wrote."""
        shutil.rmtree(self.directory, ignore_errors=True)


def make_place(out: Path, rendezvous: Rendezvous | None) -> Place:
    """`RUN.parts`, beside the run since ranks of other hosts may see it, too; of one node, `RUN/node-K`.

    It stays if the run cannot be stored, or the launcher is killed. Raises RunError if there is one.
    """
    if rendezvous is not None:
        return Place(node_directory(out, rendezvous).absolute(), out, node=True)
    check_place(out)
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
    return Place(directory, out)


def parts_of(out: Path) -> Path:
    """Where the ranks of the run `out` write."""
    return out.with_name(f"{out.name}.parts")


def store(place: Place, failure: str | None) -> Trace | None:
    """Store what there is; None if no rank recorded anything, or other nodes have their part.

    Raises RunError if it cannot be written.
    """
    if place.node:
        return None
    try:
        collected = collect(place.directory, failure=failure)
    except RuntimeFailedError:
        return None
    beside = _beside(place.directory)
    files = sorted(str(p.relative_to(beside)) for p in beside.rglob("*") if p.is_file())
    collected.provenance["files"] = files
    save_run(collected, place.out, beside)
    return collected


def kept(place: Place, stored: Trace | None) -> str:
    """What to say of a run that failed."""
    if place.node:
        return f": what the ranks of this node recorded is kept in '{place.directory}'"
    if stored is None:
        return ": no collective had been recorded"
    return f": what was recorded is kept as the unfinished run '{place.out}'"


def elsewhere(place: Place) -> str:
    """What to say if ranks have written on other hosts; nothing if all are here."""
    if place.node:
        return f"collect all nodes in one place, then: zerosim merge {place.out} -o RUN"
    logs = read_logs(place.directory)
    world = max((int(log.header["world_size"]) for log in logs), default=0)
    if not logs or len(logs) >= world or any(log.status != "finished" for log in logs):
        return ""
    here = ", ".join(str(log.rank) for log in logs)
    return (
        f"ranks {here} of {world} are in '{place.directory}': bring what the other hosts have beside "
        "it, and `zerosim merge DIRECTORY… -o RUN` makes the run"
    )


def problem(place: Place) -> str | None:
    """The first thing that the tracer could not do."""
    for directory in (place.directory, place.directory / "beside"):
        with suppress(OSError):
            lines = (directory / "tracer.log").read_text(encoding="utf-8").splitlines()
            return lines[0] if lines else None
    return None


def _beside(directory: Path) -> Path:
    """A directory of what the run keeps besides its tables: logs, and what other tracers wrote."""
    beside = directory / "beside"
    beside.mkdir(exist_ok=True)
    dropped = {path for pattern in _RANK_FILES for path in directory.glob(pattern)}
    for path in sorted(directory.iterdir()):
        if path not in dropped and path != beside:
            path.rename(beside / path.name)
    return beside
