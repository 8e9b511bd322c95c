"""Traces to files of other tools: what each format is for, and who writes it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from zerosim.errors import InputError
from zerosim.exporters import chakra, chrome, html, perfetto, tables
from zerosim.registry import Registry
from zerosim.trace import Trace


@dataclass(frozen=True, slots=True)
class Exporter:
    """A format: what it is for, in a line, and how a trace is written to a path.

    `write` leaves nothing half-written: what stood at the path before is replaced in one step.
    """

    says: str
    write: Callable[[Trace, Path], None]


EXPORTERS: Final[Registry[Exporter]] = Registry(
    "export format",
    {
        "chrome": Exporter(
            "Chrome JSON as torch.profiler writes it: Perfetto, HTA, TraceLens", chrome.write
        ),
        "perfetto": Exporter("Perfetto's own format, for ui.perfetto.dev", perfetto.write),
        "chakra": Exporter(
            "Chakra execution traces, one a rank, and comm_group.json: ASTRA-sim", chakra.write
        ),
        "html": Exporter("the timeline as one page that needs no server", html.write),
        "csv": Exporter("spans and samples as tables of text", tables.write_csv),
        "parquet": Exporter("spans and samples as tables with types", tables.write_parquet),
    },
)


def export(trace: Trace, to: str, path: Path) -> None:
    """Write `trace` to `path` in the format `to`; a file there is replaced, a full directory is not.

    Raises UnknownNameError for a format there is not, InputError where it cannot be written.
    """
    exporter = EXPORTERS[to]
    try:
        if path.is_dir() and any(path.iterdir()):
            raise InputError(f"'{path}' is a directory that is not empty: choose another with -o")
        if path.exists() and not path.is_file() and not path.is_dir():
            raise InputError(f"'{path}' is no file that can be replaced: choose another with -o")
        exporter.write(trace, path)
    except OSError as error:
        reason = error.strerror or error
        raise InputError(f"cannot write '{path}': {reason}; choose another place") from error
