"""What becomes a run of the library: files dropped onto a page, read by the importers; a scenario."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Final

from zerosim.errors import InputError
from zerosim.importers import read
from zerosim.importers.choice import ALL, Choice
from zerosim.scenario import Scenario, run
from zerosim.store import free_name, save_run
from zerosim.trace import Trace
from zerosim_app.jobs import Report
from zerosim_app.uploads import Announced, Upload, Uploads

MAX_NAME: Final = 80
SALVAGE: Final = "Keep what is whole of files that end early"
"""What `--salvage` is called on the page."""
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]+")
_ENDINGS: Final = re.compile(
    r"(\.pt)?(\.trace)?(\.jsonl?|\.tar|\.zip|\.tgz|\.et|\.sqlite|\.pickle|\.pkl|\.log|\.txt)?(\.gz)?$"
)


def import_upload(
    uploads: Uploads,
    upload_id: str,
    name: str,
    library: Path,
    report: Report,
    choice: Choice = ALL,
) -> str:
    """Import the files of an upload as one run; returns the run's id. Of the upload nothing stays.

    What lay in folders is read as a folder is: what is no trace is left out, and the run says so.
    Raises InputError for files that did not come whole, are damaged, or in no known format.
    """
    with uploads.taken(upload_id) as upload:
        report(f"reading {', '.join(file.name for file in upload.files[:3])}")
        run_id = free_name(library, safe_name(name or _called(upload.files)))
        try:
            trace = read(
                _given(upload),
                name=run_id,
                choice=choice,
                watch=lambda file, share: report(f"reading {file}, {share:.0%}"),
            )
        except InputError as error:
            raise InputError(_as_dropped(str(error), upload)) from None
        of = f"{len(trace.ranks)} rank{'' if len(trace.ranks) == 1 else 's'}"
        report(f"storing {trace.spans.height:,} spans of {of}")
        save_run(_named(trace, run_id), library / run_id)
    return run_id


def keep(scenario: Scenario, name: str, library: Path) -> str:
    """Simulate a scenario and store the run under `name` (else its own); returns the run's id."""
    run_id = free_name(library, safe_name(name or scenario.name))
    save_run(_named(run(scenario), run_id), library / run_id)
    return run_id


def safe_name(name: str) -> str:
    """A file's or a user's name as a run can be called: no endings, no slashes, never hidden."""
    stem = _ENDINGS.sub("", Path(name.replace("\\", "/")).name)
    return _UNSAFE.sub("-", stem).strip("-.")[:MAX_NAME] or "imported"


def _given(upload: Upload) -> list[Path]:
    """What the importers are asked to read: files that lay in no folder by name, the others as folders."""
    given: dict[Path, None] = {}
    for file, path in zip(upload.files, upload.paths, strict=True):
        place = path.relative_to(upload.folder).parts[0]
        given[upload.folder / place if _folder_of(file) else path] = None
    return list(given)


def _called(files: Sequence[Announced]) -> str:
    """What to call the run: the folder that was dropped, else the first file."""
    return _folder_of(files[0]) or files[0].name


def _folder_of(file: Announced) -> str:
    parts = PurePosixPath(file.name.replace("\\", "/")).parts
    return parts[0] if len(parts) > 1 else ""


def _as_dropped(sentence: str, upload: Upload) -> str:
    """`sentence` about files as their user knows them, not where they are kept."""
    kept = re.escape(str(upload.folder))
    whole = re.sub(rf"'{kept}/[\d-]+'", f"'{_called(upload.files)}'", sentence)
    return re.sub(rf"{kept}/([\d-]+/)?", "", whole).replace("--salvage", f"ticking '{SALVAGE}'")


def _named(trace: Trace, name: str) -> Trace:
    return replace(trace, meta=replace(trace.meta, name=name))
