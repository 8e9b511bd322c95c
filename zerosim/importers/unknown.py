"""What a file of no known format is, as a phrase for whoever gave it."""

from __future__ import annotations

import re
import string
from collections.abc import Iterable
from typing import Any, Final

import orjson

_MAGIC: Final = (
    (b"PK\x03\x04", "a zip archive"),
    (b"SQLite format 3\x00", "an SQLite database (an Nsight Systems export?)"),
    (b"PAR1", "a Parquet table"),
    (b"\x28\xb5\x2f\xfd", "a Zstandard file (unpack it first)"),
    (b"\xfd7zXZ\x00", "an xz file (unpack it first)"),
    (b"BZh", "a bzip2 file (unpack it first)"),
    (b"\x7fELF", "a program"),
    (b"\xff\xfe\0\0", "text in UTF-32 (save it as UTF-8)"),
    (b"\0\0\xfe\xff", "text in UTF-32 (save it as UTF-8)"),
    (b"\xff\xfe", "text in UTF-16 (save it as UTF-8: `iconv -f UTF-16 -t UTF-8`)"),
    (b"\xfe\xff", "text in UTF-16 (save it as UTF-8: `iconv -f UTF-16 -t UTF-8`)"),
    (b"version https://git-lfs", "a Git LFS pointer, not the file itself (run `git lfs pull`)"),
)
_PICKLE: Final = (
    "a Python pickle, but no flight recorder dump or memory snapshot, and others are never loaded"
)
_PAGE: Final = "a web page (a download that failed?)"
_REPORTS: Final = (".nsys-rep", ".qdrep")
_REPORT: Final = "an Nsight Systems report (run `nsys export --type sqlite` first)"
_JSON_KEYS: Final = (
    (("nodes", "schema"), "a PyTorch execution trace (ET), not a Kineto trace"),
    (("workload_graph",), "a Chakra trace"),
    (("pg_config", "entries"), "a flight recorder dump"),
    (("coll_perf",), "an NCCL Inspector log"),
    (("spans.parquet",), "a description of a run"),
    (("fwd_start", "bwd_start"), "a table of pipeline timings (Primus), not a trace"),
)
"""Keys at the top or right below it."""
_TIMELINE: Final = (
    "a memory timeline of torch.profiler, not a trace"
    " (export the trace itself, with profile_memory=True)"
)
_LOG: Final = (
    "text without a line of a known log (NCCL_DEBUG=INFO, nccl-tests, DeepSpeed's comms logger)"
)
_NO_TRACE: Final = "JSON without trace events"
_JSON: Final = re.compile(
    rb'(?:\{\s*(?:["}]|$)|\[\s*(?:[\]\[{"]|-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?\s*[,\]]|true|false|null|$))'
)
"""How a JSON text can begin: a log may begin with a bracket, too."""
_TEXT: Final = string.printable.encode()
_FIELDS: Final = 4
_MOST_KEYS: Final = 8
_LONGEST: Final = 60


def describe(raw: bytes, name: str = "") -> str:
    """What `raw`, of a file called `name`, looks like: `a zip archive`."""
    start = raw[: 2**16].lstrip(b"\xef\xbb\xbf \t\r\n")
    marks = (
        (not raw.strip(), "an empty file"),
        (name.lower().endswith(_REPORTS), _REPORT),
        (raw[:1] == b"\x80" and raw[1:2] in b"\x02\x03\x04\x05", _PICKLE),
        (raw[257:262] == b"ustar", "a damaged or cut tar archive"),
        *((raw.startswith(magic), what) for magic, what in _MAGIC),
        (start[:15].lower().startswith((b"<!doctype html", b"<html")), _PAGE),
    )
    told = next((what for is_so, what in marks if is_so), None)
    if told is None and _JSON.match(start):
        return _describe_json(raw)
    return told or (_LOG if _is_text(raw[:4096]) else "a binary file of unknown format")


def _is_text(head: bytes) -> bool:
    odd = len(head.translate(None, delete=_TEXT))
    return b"\0" not in head and odd * 3 <= len(head)


def _describe_json(raw: bytes) -> str:
    try:
        document = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        return f"no JSON, or damaged ({error})"
    if isinstance(document, list) and document and all(map(_is_memory, document[:9])):
        return _TIMELINE
    if not isinstance(document, dict) or not document:
        return _NO_TRACE
    below = (key for value in document.values() if isinstance(value, dict) for key in value)
    known = {*document, *below}
    named = document.get("format")
    if (what := next((w for keys, w in _JSON_KEYS if known.issuperset(keys)), None)) is not None:
        return what
    if isinstance(named, str) and named:
        return f"JSON of the format '{_plain(named)}'"
    return f"{_NO_TRACE} (its keys are {_listed(document)})"


def _is_memory(row: Any) -> bool:  # noqa: ANN401 - whatever a file holds
    """Whether `row` is a moment, an action, how many bytes and their category."""
    return isinstance(row, list) and len(row) == _FIELDS and all(type(n) is int for n in row)


def _listed(keys: Iterable[str]) -> str:
    names = [_plain(key) for key in keys]
    return ", ".join(names[:_MOST_KEYS]) + (", …" if len(names) > _MOST_KEYS else "")


def _plain(text: str) -> str:
    """`text`, which a stranger wrote, on one line of a terminal."""
    return "".join(c if c.isprintable() else " " for c in text[:_LONGEST])
