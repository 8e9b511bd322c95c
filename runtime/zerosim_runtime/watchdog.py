"""Who holds up the ranks: read from their rings, while they run and after they have died.

# Note [Slow is not hung]
A rank moves on while anything of it changes: a collective issued or ended, the op it says it is in, a
beat, a megabyte written to disk; before it has joined the others, a second of computing. Nobody is
judged for computing long: a run is ended only if some rank waits in a collective and nothing of it has
changed for `timeout_s`, and nothing of those that it waits for either. A rank that is stopped by a
signal is judged even if nobody waits.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from zerosim.kinds import Kind
from zerosim_runtime.disagreement import Verdict, apart
from zerosim_runtime.ending import ranks_of
from zerosim_runtime.places import Where, content_of, places
from zerosim_runtime.ring import EVERYONE, Noted, read_life, read_ring

TIMEOUT_S: Final = 20.0
"""How long nothing may move while somebody waits."""
_MUTE: Final = (Kind.REDUCE_SCATTER.value, Kind.P2P.value)
"""Kinds whose end Gloo does not tell to a tracer: they may have ended."""
_STATES: Final = {
    "T": "is stopped by a signal",
    "Z": "is dead",
    "D": "hangs in the kernel",
    "S": "hangs, asleep",
    "R": "hangs, computing",
}
_GONE: Final = ("T", "Z")
"""Who waits for nothing: the stopped, and the dead, of whom an earlier start may have left the ring."""
_WRITTEN: Final = 2**20
_BESIDES: Final = "ranks"
"""What a rank waits in that is no collective is told as one of this group."""


@dataclass(frozen=True, slots=True)
class _View:
    """A rank as it is now: what it noted, and a mark that changes as long as it moves on."""

    rank: int
    noted: tuple[Noted, ...]
    state: str
    mark: tuple[Any, ...]
    besides: Noted | None = None
    joined: bool = True
    mute: bool = False

    @property
    def waits_in(self) -> Noted | None:
        """The oldest collective that has surely not ended, else what the rank waits in besides."""
        sure = (each for each in self.under_way if not (self.mute and each.kind in _MUTE))
        return next(sure, None)

    @property
    def under_way(self) -> list[Noted]:
        """What has not ended, as far as one can tell."""
        besides = [] if self.besides is None else [self.besides]
        return [*(each for each in self.noted if not each.ended_ns), *besides]

    def reached(self, group: str) -> int | None:
        """The last collective of a group that it has issued."""
        return max((each.seq for each in self.noted if each.group == group), default=None)


@dataclass(slots=True)
class Watchdog:
    """Watches the ranks of this host that write into `where`.

    `n_ranks`: how many there are; None: those that have a ring, the others are on other hosts.
    `strict`: each collective's unit is certain (a plan's), so that ranks which disagree on it are
    stopped at once; else units are a guess of the tracer, and only explain why nothing moves.
    """

    where: Where
    n_ranks: int | None
    timeout_s: float = TIMEOUT_S
    strict: bool = False
    now: Callable[[], float] = time.monotonic
    verdict: Verdict | None = None
    _marks: dict[int, tuple[tuple[Any, ...], float]] = field(default_factory=dict)
    _suspected: Verdict | None = None

    def look(self) -> Verdict | None:
        """What is wrong now; None: nothing, or not yet certain."""
        views = [
            _view(self.where, rank, mute=not self.strict)
            for rank in _watched(self.where, self.n_ranks)
        ]
        self.verdict = self._disagree(views) or self._stalled(views)
        return self.verdict

    def _disagree(self, views: Sequence[_View]) -> Verdict | None:
        if not self.strict:
            return None
        found = apart(_rings(views))
        # A slot may be read while it is written: what is seen twice is true.
        certain = found if found == self._suspected else None
        self._suspected = found
        return certain

    def _stalled(self, views: Sequence[_View]) -> Verdict | None:
        silent = [view for view in views if self._silent_s(view) >= self.timeout_s]
        if stopped := [view for view in silent if view.state == "T"]:
            held = next(((v, v.waits_in) for v in _waiting(silent)), None)
            return Verdict(_ranks(stopped), _blame(stopped, held, self.timeout_s))
        for waiting in silent:
            for at in waiting.under_way if waiting.state not in _GONE else ():
                found = self._missing(waiting, at, views, silent)
                if found is not None:
                    return found
        if len(silent) == len(views) and _waiting(views):
            return apart(_rings(views)) or _stuck(views, self.timeout_s)
        return None

    def _silent_s(self, view: _View) -> float:
        known = self._marks.get(view.rank)
        if known is None or known[0] != view.mark:
            self._marks[view.rank] = known = (view.mark, self.now())
        return self.now() - known[1]

    def _missing(
        self, waiting: _View, at: Noted, views: Sequence[_View], silent: Sequence[_View]
    ) -> Verdict | None:
        """Who of those that have not come to `at`, in which `waiting` waits, does not move either."""
        behind = [view for view in views if _is_behind(view, at) and not _let_down(view, views)]
        if any(view not in silent for view in behind):
            return None
        sure = self.strict or at.kind not in _MUTE
        missing = behind or [
            view
            for view in silent
            if sure and view.reached(at.group) is None and view.waits_in is None
        ]
        if not missing:
            return None
        found = apart(_rings(views))
        reason = _blame(missing, (waiting, at), self.timeout_s)
        return found or Verdict(_ranks(missing), reason)


def last_collective(where: Where, rank: int) -> Noted | None:
    """The collective that a rank is, or was last, in: the oldest that has not ended, else the last."""
    noted = read_ring(where, rank)
    under_way = (each for each in noted if not each.ended_ns)
    return next(under_way, noted[-1] if noted else None)


def _watched(where: Where, n_ranks: int | None) -> Iterable[int]:
    if n_ranks is not None:
        return range(n_ranks)
    found = (path.stem for place in places(where) for path in place.glob("rank-*.ring"))
    numbers = (stem.removeprefix("rank-") for stem in found)
    return sorted({int(number) for number in numbers if number.isdecimal()})


def _view(where: Where, rank: int, *, mute: bool) -> _View:
    noted, life = read_ring(where, rank), read_life(where, rank)
    ended = sum(each.ended_ns > 0 for each in noted)
    last = noted[-1].number if noted else None
    beat = None if life is None else (life.pid, life.beat_ns)
    pid, computed = (None, 0) if life is None else (life.pid, 0)
    if life is None and (alive := ranks_of(places(where)).get(rank)) is not None:
        pid = alive[0]
        computed = _computed(pid)
    besides = None
    if life is not None and life.waits_in:
        besides = Noted(-1, life.seq, 0, 0, 0, _BESIDES, "", life.waits_in)
    mark = (last, ended, beat, besides, computed, _now(where, rank), _written(pid))
    return _View(rank, noted, _state(pid), mark, besides, life is not None, mute)


def _now(where: Where, rank: int) -> bytes:
    """The op that a rank of a plan says it is in, and since when."""
    found = (content_of(place / f"rank-{rank}.now") for place in places(where))
    return next((content for content in found if content is not None), b"")


def _state(pid: int | None) -> str:
    """The letter of /proc, Z for a process that is gone, nothing for one that never came."""
    if pid is None:
        return ""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return "Z" if Path("/proc/self").exists() else ""


def _computed(pid: int) -> int:
    """Seconds of computing of a process: one that still imports what it needs is no hang."""
    try:
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return (int(words[11]) + int(words[12])) // os.sysconf("SC_CLK_TCK")


def _written(pid: int | None) -> int:
    """Megabytes that a process has written to disk: a rank that saves a checkpoint moves on."""
    try:
        lines = Path(f"/proc/{pid}/io").read_text().splitlines()
    except OSError:
        return 0
    written = (line.split()[1] for line in lines if line.startswith("write_bytes"))
    return int(next(written, "0")) // _WRITTEN


def _is_behind(view: _View, at: Noted) -> bool:
    reached = view.reached(at.group)
    return at.group == EVERYONE if reached is None else reached < at.seq


def _let_down(view: _View, views: Sequence[_View]) -> bool:
    """Whether a rank waits in a collective that all others have come to: it is not the one that hangs."""
    at = view.waits_in
    return at is not None and view in _waiting(views) and not any(_is_behind(v, at) for v in views)


def _waiting(views: Iterable[_View]) -> list[_View]:
    return [view for view in views if view.waits_in is not None and view.state not in _GONE]


def _blame(
    missing: Sequence[_View], waiting: tuple[_View, Noted | None] | None, timeout_s: float
) -> str:
    first = missing[0]
    others = f" (and rank {', '.join(str(v.rank) for v in missing[1:])})" if missing[1:] else ""
    last = first.waits_in or (first.noted[-1] if first.noted else None)
    where = f", its last is {last.place}" if last is not None else ""
    held = ""
    if waiting is not None and waiting[1] is not None:
        held = f", and rank {waiting[0].rank} waits in {waiting[1].place}"
    how = _STATES.get(first.state, "is not there")
    if not first.joined:
        how = f"has not joined and {how}"
    return (
        f"rank {first.rank}{others} {how}: nothing of it has moved for {timeout_s:g} s{where}{held}"
    )


def _stuck(views: Sequence[_View], timeout_s: float) -> Verdict:
    """All have come to what they wait for, and nothing arrives."""
    waiting = _waiting(views)
    each = ", ".join(f"rank {v.rank} in {v.waits_in.place}" for v in waiting if v.waits_in)
    return Verdict(
        _ranks(waiting),
        f"nothing has arrived for {timeout_s:g} s, the network is down or another host's rank is "
        f"lost: {each}",
    )


def _rings(views: Iterable[_View]) -> dict[int, tuple[Noted, ...]]:
    return {view.rank: view.noted for view in views}


def _ranks(views: Iterable[_View]) -> tuple[int, ...]:
    return tuple(view.rank for view in views)
