"""One pass over the events of a file: each slice that matters lands in the pile of its sort."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from zerosim.importers.kineto.times import nanoseconds
from zerosim.trace import Flag

Thread = tuple[Any, Any]

GPU: Final = frozenset({"kernel", "gpu_memcpy", "gpu_memset", "memcpy", "memset"})
LAUNCH: Final = frozenset(
    {
        *("cuda_runtime", "cuda_driver", "runtime", "hip_runtime", "hip_driver"),
        *("xpu_runtime", "mtia_runtime", "privateuse1_runtime", "privateuse1_driver"),
    }
)
_OPS: Final = frozenset({"cpu_op", "operator"})
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
    """The slices of a file by sort; `skipped` counts events whose time cannot be read."""

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


def sort_events(events: Iterable[Any], base_ns: int) -> Events:
    """Every event that says something about work, in its pile, in file order."""
    piles = Events()
    for event in events:
        if not isinstance(event, dict):
            piles.skipped.append(event)
            continue
        pile = _pile_of(event, piles)
        if pile is None:
            continue
        piece = _slice(event, base_ns)
        if piece is None:
            piles.skipped.append(event)
        else:
            pile.append(piece)
    return piles


def _pile_of(event: dict[str, Any], piles: Events) -> list[Slice] | None:
    phase, name = event.get("ph"), event.get("name")
    if not isinstance(name, str):
        name = ""
    if phase in ("i", "I", "n"):
        return piles.memory if name == "[memory]" else None
    if phase != "X":
        return None
    category = str(event.get("cat", "")).lower()
    if category in GPU:
        return piles.gpu
    if category in LAUNCH:
        return piles.launches
    if category == "user_annotation":
        return piles.steps if name.startswith(STEP) else piles.annotations
    return _op_pile(name, piles) if category in _OPS else None


def _op_pile(name: str, piles: Events) -> list[Slice] | None:
    if name.startswith("aten::"):
        return piles.aten
    if name == "record_param_comms":
        return piles.comms
    if name.startswith("c10d::"):
        return piles.c10d
    if name.startswith("autograd::engine::evaluate_function"):
        return piles.backward
    if name.startswith(STEP):
        return piles.steps
    return piles.annotations if name.startswith(_ANNOTATED) else None


def _slice(event: dict[str, Any], base_ns: int) -> Slice | None:
    start, length = nanoseconds(event.get("ts")), nanoseconds(event.get("dur", 0))
    if start is None:
        return None
    flags = 0
    if length is None or length < 0:
        # -1 and the like: the profiler never saw it end.
        length, flags = 0, int(Flag.UNFINISHED)
    if start == 0:
        flags |= int(Flag.UNTIMED)
    args = event.get("args")
    begin = start + base_ns
    return Slice(
        begin,
        begin + length,
        str(event.get("name")),
        str(event.get("cat", "")).lower(),
        (_plain(event.get("pid")), _plain(event.get("tid"))),
        args if isinstance(args, dict) else {},
        flags,
    )


def _plain(identity: object) -> object:
    return identity if isinstance(identity, int | str) else str(identity)
