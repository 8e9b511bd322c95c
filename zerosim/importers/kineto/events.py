"""One pass over the events of a file: each slice that matters lands in the pile of its sort."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from sys import intern
from typing import Any, Final, NamedTuple

from zerosim.importers.kineto.facts import COLLECTIVE
from zerosim.importers.kineto.times import InexactError, fits_float, nanoseconds
from zerosim.trace import Flag

Thread = tuple[Any, Any]
_Bare = tuple[Any, Any, Any, Any, Any]
"""ts, dur, name, pid and tid of an event, as they are written."""

GPU: Final = frozenset({"kernel", "gpu_memcpy", "gpu_memset", "memcpy", "memset"})
LAUNCH: Final = frozenset(
    {
        *("cuda_runtime", "cuda_driver", "runtime", "hip_runtime", "hip_driver"),
        *("xpu_runtime", "mtia_runtime", "privateuse1_runtime", "privateuse1_driver"),
    }
)
_NEEDED: Final = ("correlation", "External id", "device", "stream")
_OPS: Final = frozenset({"cpu_op", "operator"})
_SHOWN: Final = 40
_UNTIMED: Final = int(Flag.UNTIMED)
_UNFINISHED: Final = int(Flag.UNFINISHED)
_ANNOTATION: Final = "user_annotation"
_INSTANTS: Final = ("i", "I", "n")
_PHASES: Final = frozenset("XBEbneIiCsftPNODMVvRcSTpF(),=a")
"""What an event can be; one that is none of these has lost its sort."""
_PASSED_OVER: Final = re.compile(
    r"python_function|gpu_user_annotation|overhead|trace|cuda_sync|cuda_event|cuda_profiler_range|ac2g"
    r"|fwdbwd|async_cpu_to_gpu|external_correlation|cpu_instant_event|hpu_op|collective_comm"
    r"|(?:mtia|xpu|glow|privateuse1)_\w+"
)
"""Categories of complete events that say nothing of what ran."""
_ANNOTATED: Final = (
    "Optimizer.step",
    "FSDP::",
    "nccl:",
    "gloo:",
    "DistributedDataParallel.forward",
)
STEP: Final = "ProfilerStep#"


class Slice(NamedTuple):
    """A complete event: absolute ns, the thread (pid, tid) it lies on, and its arguments."""

    start: int
    end: int
    name: str
    category: str
    thread: Thread
    args: dict[str, Any]
    flags: int

    @property
    def on_main_thread(self) -> bool:
        """Whether its thread is the process's first one, whose tid is the pid."""
        return bool(self.thread[0] == self.thread[1])


@dataclass(frozen=True, slots=True)
class Events:
    """The slices of a file by sort; `skipped` are events whose time or sort cannot be read.

    `strange`: how many events were of categories that nobody knows.

    `aten` and `backward` have no arguments, and stay empty where there is GPU work.
    """

    gpu: list[Slice] = field(default_factory=list)
    launches: list[Slice] = field(default_factory=list)
    steps: list[Slice] = field(default_factory=list)
    annotations: list[Slice] = field(default_factory=list)
    aten: list[Slice] = field(default_factory=list)
    c10d: list[Slice] = field(default_factory=list)
    backward: list[Slice] = field(default_factory=list)
    comms: list[Slice] = field(default_factory=list)
    memory: list[Slice] = field(default_factory=list)
    skipped: list[Any] = field(default_factory=list)
    strange: Counter[str] = field(default_factory=Counter)


# Note [Millions of events]: this pass is most of an import. So piles are found by the texts that tell
# them, and only what is needed later becomes a slice: no flows, no Python calls, and of operators those
# that compute on the host only where no device did.
def sort_events(events: Iterable[Any], base_ns: int) -> Events:
    """Every event that says something about work, in its pile, in file order.

    Raises InexactError if a time has become a float that does not hold it.
    """
    piles = Events()
    sortings: dict[str, _Sorting] = {}
    host: list[tuple[list[Slice], _Bare]] = []
    threads: dict[Thread, Thread] = {}
    for event in events:
        phase = event.get("ph") if type(event) is dict else None
        if type(phase) is not str or phase not in _PHASES:
            piles.skipped.append(event)
            continue
        name = event.get("name")
        if phase == "X":
            category = event.get("cat", "")
            if type(category) is not str:
                category = str(category)
            sorting = sortings.get(category)
            if sorting is None:
                sorting = sortings[category] = _Sorting(category.lower(), piles)
            if sorting.strange:
                piles.strange[category[:_SHOWN]] += 1
            pile = sorting.pile_of(name) if sorting.by_name else sorting.pile
            category = sorting.category
        else:
            pile = piles.memory if phase in _INSTANTS and name == "[memory]" else None
            category = ""
        if pile is None:
            continue
        get = event.get
        name = intern(name) if type(name) is str else name
        bare = get("ts"), get("dur", 0), name, get("pid"), get("tid")
        if pile is piles.aten or pile is piles.backward:
            host.append((pile, bare))
            continue
        args = get("args")
        if pile is piles.gpu or pile is piles.launches:
            args = _told(args)
        piece = _slice(bare, category, args, base_ns, threads)
        if piece is None:
            piles.skipped.append(event)
        else:
            pile.append(piece)
    _add_host(host, piles, base_ns)
    return piles


class _Sorting:
    """Where the events of one category go: into one pile, or by their names."""

    def __init__(self, category: str, piles: Events) -> None:
        self.category, self.piles = category, piles
        self.pile = piles.gpu if category in GPU else piles.launches if category in LAUNCH else None
        self.by_name = category in _OPS or category == _ANNOTATION
        known = self.by_name or self.pile is not None
        self.strange = not known and not _PASSED_OVER.fullmatch(category)
        self.named: dict[str, list[Slice] | None] = {}

    def pile_of(self, name: object) -> list[Slice] | None:
        """The pile of events named `name`."""
        if type(name) is not str:
            name = ""
        try:
            return self.named[name]
        except KeyError:
            pile = self.named[name] = self._find(name)
            return pile

    def _find(self, name: str) -> list[Slice] | None:
        piles = self.piles
        if name.startswith(STEP):
            return piles.steps
        if self.category == _ANNOTATION or name.startswith(_ANNOTATED):
            return piles.annotations
        if name == "record_param_comms":
            return piles.comms
        starts = (
            ("aten::", piles.aten),
            ("c10d::", piles.c10d),
            ("autograd::engine::evaluate_function", piles.backward),
        )
        return next((pile for start, pile in starts if name.startswith(start)), None)


def _add_host(host: list[tuple[list[Slice], _Bare]], piles: Events, base_ns: int) -> None:
    if piles.gpu:
        piles.skipped.extend(bare for _, bare in host if nanoseconds(bare[0]) is None)
        return
    threads: dict[Thread, Thread] = {}
    for pile, bare in host:
        piece = _slice(bare, "cpu_op", None, base_ns, threads)
        if piece is None:
            piles.skipped.append(bare)
        else:
            pile.append(piece)


def _told(args: object) -> object:
    """Of the arguments of device work and launches, those that are needed: most are of the kernel's grid."""
    if type(args) is not dict or COLLECTIVE in args:
        return args
    return {key: args[key] for key in _NEEDED if key in args}


def _slice(
    bare: _Bare, category: str, args: object, base_ns: int, threads: dict[Thread, Thread]
) -> Slice | None:
    ts, dur, name, pid, tid = bare
    start, length = nanoseconds(ts), nanoseconds(dur)
    if start is None:
        return None
    if type(ts) is float and not fits_float(ts):
        raise InexactError
    flags = 0
    if length is None or length < 0:
        # -1 and the like: the profiler never saw it end.
        length, flags = 0, _UNFINISHED
    if start == 0:
        flags |= _UNTIMED
    begin = start + base_ns
    thread = (
        pid if type(pid) is int or type(pid) is str else _plain(pid),
        tid if type(tid) is int or type(tid) is str else _plain(tid),
    )
    return Slice(
        begin,
        begin + length,
        name if type(name) is str else str(name),
        category,
        threads.setdefault(thread, thread),
        args if type(args) is dict else {},
        flags,
    )


def _plain(identity: object) -> object:
    return identity if isinstance(identity, int | str) else str(identity)
