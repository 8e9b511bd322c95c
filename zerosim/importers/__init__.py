"""Files of other tools to Traces: the format is told by what a file holds, never by its name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from zerosim.errors import TraceFileError
from zerosim.importers import (
    chakra,
    deepspeed_comms,
    execution,
    exported,
    flight,
    inspector,
    kineto,
    nccl_debug,
    nccl_profiler,
    nccl_tests,
    nsys,
    snapshot,
)
from zerosim.importers.choice import ALL, Choice
from zerosim.importers.choosing import refuse_repairs, select
from zerosim.importers.clocks import align
from zerosim.importers.content import Content, describe
from zerosim.importers.identity import distinct_sources, with_rank
from zerosim.importers.merging import merge, one_format
from zerosim.importers.places import open_all
from zerosim.importers.recording import Recording
from zerosim.registry import Registry
from zerosim.trace import Trace

Watch = Callable[[str, float], None]


@dataclass(frozen=True, slots=True)
class Importer:
    """A format: how to tell it from its bytes, and how to read one file of it."""

    sniff: Callable[[bytes], bool]
    parse: Callable[[Content, Choice], Sequence[Recording]]


IMPORTERS: Final[Registry[Importer]] = Registry(
    "importer",
    {
        "exported": Importer(exported.sniff, exported.parse),
        "nccl-profiler": Importer(nccl_profiler.sniff, nccl_profiler.parse),
        "kineto": Importer(kineto.sniff, kineto.parse),
        "inspector": Importer(inspector.sniff, inspector.parse),
        "nsys": Importer(nsys.sniff, nsys.parse),
        "flight-recorder": Importer(flight.sniff, flight.parse),
        "chakra": Importer(chakra.sniff, chakra.parse),
        "nccl-tests": Importer(nccl_tests.sniff, nccl_tests.parse),
        "deepspeed-comms": Importer(deepspeed_comms.sniff, deepspeed_comms.parse),
        "nccl-debug": Importer(nccl_debug.sniff, nccl_debug.parse),
        "memory-snapshot": Importer(snapshot.sniff, snapshot.parse),
        "execution-trace": Importer(execution.sniff, execution.parse),
    },
)
"""Asked in this order whether a file is theirs: those that look for less come later."""


def read(
    paths: Sequence[Path],
    *,
    name: str | None = None,
    choice: Choice = ALL,
    watch: Watch | None = None,
) -> Trace:
    """The trace in `paths`: files, folders, patterns, archives; of them, what `choice` says.

    `watch` hears which file is being read, and what share of the files lies behind.

    Its name is `name`, else that of the only file or directory, else that of the folder of them all.
    In a folder or archive, files of unknown format are left out with a warning; so are those that tell
    of the run in another format than the one that timed most of it. Raises TraceFileError for a file
    given by name that is no known trace, is damaged, or is too big.
    """
    warnings: list[str] = []
    formats: dict[str, list[tuple[Path, Recording]]] = {}
    named: set[str] = set()
    for found in open_all(paths, warnings, salvage=choice.salvage):
        content = found.content
        if watch:
            watch(content.path.name, found.share)
        if choice.strict and content.warnings:
            raise TraceFileError(f"{content.warnings[0]}: import without --strict")
        format_ = _format_of(content.raw)
        if format_ is None:
            if found.named:
                raise _unknown(content)
            warnings.append(f"'{content.path.name}' left out: it is {describe(content.raw)}")
            continue
        if found.named:
            named.add(format_)
        if parsed := IMPORTERS[format_].parse(content, choice):
            formats.setdefault(format_, []).extend((content.path, each) for each in parsed)
    if not formats:
        why = f" ({warnings[0]})" if warnings else ""
        raise TraceFileError(f"no trace in '{paths[0]}'{why}: known formats are {_known()}")
    told_apart = {format_: distinct_sources(parts) for format_, parts in formats.items()}
    recordings = with_rank(one_format(told_apart, named, warnings), choice.rank)
    trace = merge(recordings, name or _name(paths), warnings)
    if choice.strict:
        refuse_repairs(trace.meta.quality)
    return select(align(trace) if choice.align else trace, choice)


def _format_of(raw: bytes) -> str | None:
    return next((name for name in IMPORTERS if IMPORTERS[name].sniff(raw)), None)


def _unknown(content: Content) -> TraceFileError:
    return TraceFileError(
        f"'{content.path}' is {describe(content.raw)}: known formats are {_known()}"
    )


def _known() -> str:
    return ", ".join(IMPORTERS)


def _name(paths: Sequence[Path]) -> str:
    first = paths[0].resolve()
    if len(paths) > 1:
        name = first.parent.name
    else:
        name = first.name if first.is_dir() else first.name.lstrip(".").split(".", 1)[0]
    return name.lstrip(".") or "imported"
