"""Nsight Systems exports (SQLite; several ranks may share one) to recordings."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from typing import Final

import polars as pl

from zerosim.errors import TraceFileError
from zerosim.importers.choice import Choice
from zerosim.importers.content import SQLITE, Content
from zerosim.importers.kineto.events import Slice
from zerosim.importers.nsys.database import Database, open_database
from zerosim.importers.nsys.spans import Marks, sort_marks, spans_of
from zerosim.importers.nsys.tables import GRAPHS, KERNELS, Recorded, read_tables
from zerosim.importers.recording import EPOCH_NS, Recording, is_absolute, remarks
from zerosim.kinds import SIZED
from zerosim.quality import Place, Quality
from zerosim.trace import Flag, flagged, of_kind

_MOST_RANKS: Final = 4096
"""A file with more is damaged or hostile."""
_OURS: Final = frozenset({"StringIds", "TARGET_INFO_SESSION_START_TIME"})
_NO_RANK: Final = (
    "Nsight Systems does not say which rank a process is: ranks are in order of GPU and process"
)
_NO_SIZE: Final = (
    "this Nsight Systems export does not say how big all collectives are, nor of which process group: "
    "only NCCL's payloads do (nsys export --include-blobs true)"
)
_IN_GRAPHS: Final = (
    "CUDA graphs were recorded as a whole: what they communicate counts as computing"
)


@dataclass(frozen=True, slots=True)
class _Session:
    """What holds for all ranks of a file: `gpus` says which GPU a process calls device 0, 1, …"""

    base_ns: int
    absolute: bool
    gpus: dict[tuple[int, int], int]
    gpu_names: dict[int, object]

    def gpu(self, pid: int, device: int) -> int:
        """The GPU that process `pid` calls `device`; that number where the file does not say."""
        return self.gpus.get((pid & 0xFFFFFF, device), device)


def sniff(raw: bytes) -> bool:
    """Whether `raw` begins like an SQLite database."""
    return raw.startswith(SQLITE)


def parse(content: Content, choice: Choice) -> tuple[Recording, ...]:
    """The recordings of all ranks in one export, in order of GPU and process.

    Raises TraceFileError for a damaged database and for one that is not of Nsight Systems.
    """
    del choice
    with open_database(content) as database:
        if not _OURS.intersection(database.tables):
            raise TraceFileError(
                f"'{content.path}' is an SQLite database, but not of Nsight Systems: "
                "give what `nsys export --type sqlite` wrote"
            )
        recorded = read_tables(database)
        session = _session(database, recorded)
    first, *others = _ranks(content, recorded, session)
    first = _with_file(first, content, recorded)
    return (first, *others) if others else (replace(first, source=content.path.name),)


def _ranks(content: Content, recorded: Recorded, session: _Session) -> list[Recording]:
    """A recording for each process and device, one at least."""
    work = recorded.work.with_columns(_main_device(recorded.work))
    keys = work.select("pid", "main").unique().rows() or [(0, 0)]
    keys.sort(key=lambda key: (session.gpu(*key), *key))
    if len(keys) > _MOST_RANKS:
        raise TraceFileError(
            f"'{content.path}' has GPU work of {len(keys)} processes and devices, over {_MOST_RANKS}: "
            "export the nodes one by one"
        )
    parts = work.partition_by("pid", "main", as_dict=True, maintain_order=True)
    marks: dict[int, list[Slice]] = defaultdict(list)
    for mark in recorded.marks:
        marks[mark.thread[0]].append(mark)
    devices = Counter(pid for pid, _ in keys)
    return [
        _recording(
            content,
            recorded,
            session,
            (key, parts.get(key, work)),
            sort_marks(marks[key[0]] if key[0] else recorded.marks),
            alone=devices[key[0]] == 1,
        )
        for key in keys
    ]


def _session(database: Database, recorded: Recorded) -> _Session:
    last = recorded.work["start_ns"].max()
    already = is_absolute(last if isinstance(last, int) else None)
    told = database.rows("TARGET_INFO_SESSION_START_TIME", ("utcEpochNs",))
    base = next((ns for (ns,) in told if type(ns) is int and EPOCH_NS < ns < 2**61), 0)
    listed = list(database.rows("TARGET_INFO_CUDA_DEVICE", ("pid", "cudaId", "gpuId")))
    return _Session(
        base_ns=0 if already else base,
        absolute=already or base > 0,
        gpus={(p, d): g for p, d, g in listed if type(g) is int},
        gpu_names=dict(database.rows("TARGET_INFO_GPU", ("id", "name"))),
    )


def _main_device(work: pl.DataFrame) -> pl.Series:
    """Each row's device, or for one without kernels, that with most kernels of the same process."""
    kernels = Counter(work.filter(pl.col("table") == KERNELS).select("pid", "device").rows())
    main: dict[int, int] = {}
    for (pid, device), _ in kernels.most_common():
        main.setdefault(pid, device)
    pairs = work.select("pid", "device").iter_rows()
    devices = [d if (p, d) in kernels else main.get(p, d) for p, d in pairs]
    return pl.Series("main", devices, dtype=pl.Int64)


def _recording(
    content: Content,
    recorded: Recorded,
    session: _Session,
    part: tuple[tuple[int, int], pl.DataFrame],
    marks: Marks,
    *,
    alone: bool,
) -> Recording:
    (pid, device), work = part
    # A process with several devices is several ranks, and its calls do not say of which one.
    rank = marks.calls.rank if alone else None
    spans = spans_of(work, marks, with_launches=pid in recorded.with_launches)
    base = session.base_ns
    name = session.gpu_names.get(session.gpu(pid, device))
    source = f"{content.path.name} (device {device}, process {pid & 0xFFFFFF})"
    return Recording(
        source=source,
        rank=rank,
        device=name if isinstance(name, str) else None,
        spans=spans.with_columns(pl.col("issued_ns", "start_ns", "end_ns") + base),
        windows=tuple(
            replace(w, start_ns=w.start_ns + base, end_ns=w.end_ns + base) for w in marks.steps
        ),
        groups=tuple(marks.calls.groups.values()),
        absolute=session.absolute,
        clock=str(content.path),
        quality=_quality(source, spans, ranked=rank is not None),
    )


def _quality(source: str, spans: pl.DataFrame, *, ranked: bool) -> Quality:
    before = spans.filter(flagged(Flag.BEFORE_WINDOW)).height
    unsized = spans.filter(of_kind(SIZED) & pl.col("nbytes").is_null()).height
    untimed = spans.filter(flagged(Flag.UNTIMED)).height
    unfinished = spans.filter(flagged(Flag.UNFINISHED)).height
    notes = (
        (not spans.height, "has no GPU work: record with `nsys profile --trace=cuda,nvtx`"),
        (untimed, "has {} ops without a time"),
        (unfinished, "has {} ops that never ended: its last step is incomplete"),
        (before, "has {} ops launched before the recording"),
        (unsized, "has {} collectives of unknown size"),
    )
    said = remarks(source, notes)
    unknown = (*(() if ranked else (_NO_RANK,)), *((_NO_SIZE,) if unsized else ()))
    return Quality(before_window=before, unsized=unsized, warnings=said, unknown=unknown)


def _with_file(first: Recording, content: Content, recorded: Recorded) -> Recording:
    """`first`, which also says what was odd about the file as a whole."""
    name, skipped = content.path.name, recorded.skipped
    what = f"{skipped} events whose time cannot be read: left out"
    graphs = bool((recorded.work["table"] == GRAPHS).any())
    quality = replace(
        first.quality,
        events=recorded.events,
        skipped=skipped,
        warnings=(
            *content.warnings,
            *([f"'{name}' has {what}"] if skipped else []),
            *first.quality.warnings,
        ),
        places=(Place(name, None, what),) if skipped else (),
        unknown=(*first.quality.unknown, *([_IN_GRAPHS] if graphs else [])),
    )
    return replace(first, quality=quality)
