"""Files of other tools to Traces: the format is told by what a file holds, never by its name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from zerosim.errors import TraceFileError
from zerosim.importers import kineto
from zerosim.importers.choice import ALL, Choice
from zerosim.importers.content import Content, describe, read_content
from zerosim.importers.merging import merge
from zerosim.importers.recording import Recording
from zerosim.registry import Registry
from zerosim.trace import Trace

MAX_FILES: Final = 4096


@dataclass(frozen=True, slots=True)
class Importer:
    """A format: how to tell it from its bytes, and how to read one file of it."""

    sniff: Callable[[bytes], bool]
    parse: Callable[[Content, Choice], Sequence[Recording]]


IMPORTERS: Final[Registry[Importer]] = Registry(
    "importer",
    {
        "kineto": Importer(kineto.sniff, kineto.parse),
    },
)
"""Asked in this order whether a file is theirs: those that look for less come later."""


def read(paths: Sequence[Path], *, name: str | None = None, choice: Choice = ALL) -> Trace:
    """The trace in `paths`, one file a rank; a directory stands for its files.

    Its name is `name`, else that of the only file or directory, else that of the folder of them all.
    In a directory, files of unknown format are left out with a warning. Raises TraceFileError for
    a file given by name that is no known trace, is damaged, or is too big.
    """
    recordings: list[Recording] = []
    warnings: list[str] = []
    for path, chosen in _files(paths):
        content = read_content(path)
        importer = _importer_of(content.raw)
        if importer is not None:
            recordings += importer.parse(content, choice)
        elif chosen:
            raise _unknown(content)
        else:
            warnings.append(f"'{path.name}' left out: it is {describe(content.raw)}")
    if not recordings:
        raise TraceFileError(f"no trace in '{paths[0]}': give Kineto/Chrome traces (JSON, gzip)")
    return merge(recordings, name or _name(paths), warnings)


def _files(paths: Sequence[Path]) -> list[tuple[Path, bool]]:
    if not paths:
        raise TraceFileError("no files given: name at least one trace file or directory")
    files: list[tuple[Path, bool]] = []
    for path in paths:
        if path.is_dir():
            inside = sorted(p for p in path.iterdir() if p.is_file() and not p.name.startswith("."))
            files += [(p, False) for p in inside]
        else:
            files.append((path, True))
    if len(files) > MAX_FILES:
        raise TraceFileError(f"{len(files)} files are over {MAX_FILES}: give those of one run")
    return files


def _importer_of(raw: bytes) -> Importer | None:
    return next((i for i in map(IMPORTERS.__getitem__, IMPORTERS) if i.sniff(raw)), None)


def _unknown(content: Content) -> TraceFileError:
    return TraceFileError(
        f"'{content.path}' is {describe(content.raw)}: give a Kineto/Chrome trace (JSON or gzip)"
    )


def _name(paths: Sequence[Path]) -> str:
    first = paths[0].resolve()
    if len(paths) > 1:
        name = first.parent.name
    else:
        name = first.name if first.is_dir() else first.name.lstrip(".").split(".", 1)[0]
    return name.lstrip(".") or "imported"
