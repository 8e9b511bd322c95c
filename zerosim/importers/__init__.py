"""Files of other tools to Traces: the format is told by what a file holds, never by its name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
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
from zerosim.importers.content import Content, held
from zerosim.importers.identity import distinct_sources, with_rank
from zerosim.importers.merging import merge, one_format
from zerosim.importers.places import Found, open_all
from zerosim.importers.recording import Recording
from zerosim.importers.unknown import describe
from zerosim.registry import Registry
from zerosim.trace import Trace

Watch = Callable[[str, float], None]


@dataclass(frozen=True, slots=True)
class Importer:
    """A format: how to tell it from its bytes (of a big file: its first), and how to read one file of it."""

    sniff: Callable[[bytes], bool]
    parse: Callable[[Content, Choice], Sequence[Recording]]
    most: int | None = 2**27
    """So many bytes it reads, for they stand in memory with the tree of them; None: it reads in pieces."""


_LOGS: Final = 2**30
"""Lines of text make no tree."""
_PICKLES: Final = 3 * 2**27
"""What their trees may take is limited beside (`pickle_machine.MAX_BYTES`)."""
IMPORTERS: Final[Registry[Importer]] = Registry(
    "importer",
    {
        "exported": Importer(exported.sniff, exported.parse, None),
        "nccl-profiler": Importer(nccl_profiler.sniff, nccl_profiler.parse, None),
        "kineto": Importer(kineto.sniff, kineto.parse, None),
        "inspector": Importer(inspector.sniff, inspector.parse, None),
        "nsys": Importer(nsys.sniff, nsys.parse, None),
        "flight-recorder": Importer(flight.sniff, flight.parse, _PICKLES),
        "chakra": Importer(chakra.sniff, chakra.parse),
        "nccl-tests": Importer(nccl_tests.sniff, nccl_tests.parse, _LOGS),
        "deepspeed-comms": Importer(deepspeed_comms.sniff, deepspeed_comms.parse, _LOGS),
        "nccl-debug": Importer(nccl_debug.sniff, nccl_debug.parse, _LOGS),
        "memory-snapshot": Importer(snapshot.sniff, snapshot.parse, _PICKLES),
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
    gathered = _gather(paths, choice, watch)
    if gathered.left_out and not gathered.ranks >= (choice.ranks or frozenset()):
        # Who is who may only show beside the others: by the names of files that all say rank 0.
        gathered = _gather(paths, replace(choice, ranks=None), watch)
    formats, named, warnings = gathered.formats, gathered.named, gathered.warnings
    if not formats:
        _refuse_runs(paths)
        why = f" ({warnings[0]})" if warnings else ""
        raise TraceFileError(f"no trace in '{paths[0]}'{why}: known formats are {_known()}")
    if gathered.left_out:
        warnings.append(f"ranks of the files that were not asked for: {gathered.left_out}")
    told_apart = {format_: distinct_sources(parts) for format_, parts in formats.items()}
    recordings = with_rank(one_format(told_apart, named, warnings), choice.rank)
    trace = merge(recordings, name or _name(paths), warnings)
    if choice.strict:
        refuse_repairs(recordings)
    return select(align(trace) if choice.align else trace, choice)


@dataclass(slots=True)
class _Gathered:
    """What was found in files: recordings by format, and the formats of files that were given by name.

    `left_out`: how many recordings are of ranks that nobody asked for.
    """

    formats: dict[str, list[tuple[Path, Recording]]] = field(default_factory=dict)
    named: set[str] = field(default_factory=set)
    warnings: list[str] = field(default_factory=list)
    left_out: int = 0

    @property
    def ranks(self) -> frozenset[int | None]:
        """The ranks that the recordings say they are of."""
        return frozenset(each.rank for parts in self.formats.values() for _, each in parts)


def _gather(paths: Sequence[Path], choice: Choice, watch: Watch | None) -> _Gathered:
    gathered = _Gathered()
    for found in open_all(paths, gathered.warnings, salvage=choice.salvage):
        content = found.content
        if watch:
            _tell(found, watch)
        if choice.strict and content.warnings:
            raise TraceFileError(f"{content.warnings[0]}: import without --strict")
        format_ = _format_of(content.raw)
        if format_ is None:
            if found.named:
                raise _unknown(content)
            what = describe(content.raw, content.path.name)
            gathered.warnings.append(f"'{content.path.name}' left out: it is {what}")
            continue
        if found.named:
            gathered.named.add(format_)
        importer = IMPORTERS[format_]
        if importer.most is not None:
            content = held(content, importer.most)
        for recording in _parsed(importer, content, choice):
            if recording.asked_for:
                gathered.formats.setdefault(format_, []).append((content.path, recording))
            else:
                gathered.left_out += 1
    return gathered


def _tell(found: Found, watch: Watch) -> None:
    """Tell how far the reading is: at the beginning of a file, and within a big one as it goes on."""
    name, stored = found.content.path.name, found.content.stored
    watch(name, found.share)
    if stored is not None:
        stored.watch = lambda share: watch(name, found.share + share * found.part)


def _parsed(importer: Importer, content: Content, choice: Choice) -> Sequence[Recording]:
    try:
        return importer.parse(content, choice)
    except RecursionError:  # a name that is a list in a list in a list …
        raise TraceFileError(f"'{content.path}' is nested too deeply: it is no trace") from None


def _format_of(raw: bytes) -> str | None:
    return next((name for name in IMPORTERS if IMPORTERS[name].sniff(raw)), None)


def _unknown(content: Content) -> TraceFileError:
    return TraceFileError(
        f"'{content.path}' is {describe(content.raw, content.path.name)}: known formats are {_known()}"
    )


def _refuse_runs(paths: Sequence[Path]) -> None:
    for path in paths:
        if (path / "run.json").is_file():
            raise TraceFileError(f"'{path}' is a run already: `zerosim show {path}` tells of it")


def _known() -> str:
    return ", ".join(IMPORTERS)


def _name(paths: Sequence[Path]) -> str:
    first = paths[0].resolve()
    if len(paths) > 1:
        name = first.parent.name
    else:
        name = first.name if first.is_dir() else first.name.lstrip(".").split(".", 1)[0]
    return name.lstrip(".") or "imported"
