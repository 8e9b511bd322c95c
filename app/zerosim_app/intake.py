"""What becomes a run of the library: files dropped onto a page, read by the importers; a scenario."""

from __future__ import annotations

import base64
import binascii
import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from zerosim.errors import InputError
from zerosim.importers import read
from zerosim.scenario import Scenario, run
from zerosim.store import save_run
from zerosim.trace import Trace
from zerosim.units import format_bytes
from zerosim_app.jobs import Report

MAX_NAME: Final = 80
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]+")
_ENDINGS: Final = re.compile(
    r"(\.pt)?(\.trace)?(\.jsonl?|\.tar|\.zip|\.tgz|\.et|\.sqlite|\.pickle|\.pkl|\.log|\.txt)?(\.gz)?$"
)


@dataclass(frozen=True, slots=True)
class Dropped:
    """One file as the browser sends it: its name, and a data URL of its bytes."""

    name: str
    content: str


def import_dropped(
    dropped: Sequence[Dropped], name: str, library: Path, max_bytes: int, report: Report
) -> str:
    """Import the files as one run, one file a rank; returns the run's id.

    Raises InputError for files that are too big, damaged, or in no known format.
    """
    with tempfile.TemporaryDirectory(prefix="zerosim-") as scratch:
        report(f"unpacking {len(dropped)} file{'s' if len(dropped) > 1 else ''}")
        paths = [_unpack(file, i, Path(scratch), max_bytes) for i, file in enumerate(dropped)]
        report(f"reading {', '.join(file.name for file in dropped[:3])}")
        run_id = _free_name(library, safe_name(name or dropped[0].name))
        trace = read(
            paths, name=run_id, watch=lambda file, share: report(f"reading {file}, {share:.0%}")
        )
        report(f"storing {trace.spans.height:,} spans of {len(trace.ranks)} ranks")
        save_run(_named(trace, run_id), library / run_id)
    return run_id


def keep(scenario: Scenario, name: str, library: Path) -> str:
    """Simulate a scenario and store the run under `name` (else its own); returns the run's id."""
    run_id = _free_name(library, safe_name(name or scenario.name))
    save_run(_named(run(scenario), run_id), library / run_id)
    return run_id


def safe_name(name: str) -> str:
    """A file's or a user's name as a run can be called: no endings, no slashes, never hidden."""
    stem = _ENDINGS.sub("", Path(name.replace("\\", "/")).name)
    return _UNSAFE.sub("-", stem).strip("-.")[:MAX_NAME] or "imported"


def _named(trace: Trace, name: str) -> Trace:
    return replace(trace, meta=replace(trace.meta, name=name))


def _free_name(library: Path, name: str) -> str:
    taken = {path.name for path in library.iterdir()} if library.is_dir() else set()
    numbered = (f"{name}-{n}" for n in range(2, len(taken) + 3))
    return name if name not in taken else next(n for n in numbered if n not in taken)


def _unpack(file: Dropped, index: int, scratch: Path, max_bytes: int) -> Path:
    head, _, body = file.content.partition(",")
    if not head.startswith("data:") or not head.endswith(";base64"):
        raise InputError(f"'{file.name}' did not arrive as a file: drop it again")
    if len(body) * 3 // 4 > max_bytes:
        raise InputError(
            f"'{file.name}' is over {format_bytes(max_bytes)}: use `zerosim import` in the shell"
        )
    try:
        content = base64.b64decode(body, validate=True)
    except binascii.Error:
        raise InputError(f"'{file.name}' arrived damaged: drop it again") from None
    # A folder each, so that two files of one name do not overwrite each other.
    path = scratch / f"{index:04d}" / (_UNSAFE.sub("-", Path(file.name).name)[-MAX_NAME:] or "file")
    path.parent.mkdir()
    path.write_bytes(content)
    return path
