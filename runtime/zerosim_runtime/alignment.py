"""The clocks of several ranks as one, by the offsets that rank 0 measured, and how good that one is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from zerosim.trace import Clock
from zerosim_runtime.records import Offset


@dataclass(frozen=True, slots=True)
class Alignment:
    """One clock that starts with the first op of all, at `origin_ns` of rank 0's."""

    clock: Clock
    offsets: Mapping[int, tuple[Offset, ...]]
    origin_ns: int

    def at(self, rank: int, time_ns: int) -> int:
        """A rank's time on that clock."""
        return time_ns + shift(self.offsets.get(rank, ()), time_ns) - self.origin_ns

    def known(self, rank: int, time_ns: int | None) -> int | None:
        """The same of a time that may be unknown."""
        return None if time_ns is None else self.at(rank, time_ns)


def alignment_of(
    identities: Mapping[int, str], first_ns: Mapping[int, int], measured: Iterable[Offset]
) -> Alignment:
    """Align ranks by which clock each reads, and when it issued its first op, if it issued any.

    Ranks of one host share a clock. Else rank 0's is the clock, and the others are moved by the
    offsets `measured`; without any (a run that broke early) nothing is moved, and the clock says so.
    """
    offsets: dict[int, tuple[Offset, ...]] = {}
    for offset in measured:
        offsets[offset.rank] = (*offsets.get(offset.rank, ()), offset)
    shared = len(set(identities.values())) == 1
    known = shared or all(rank == 0 or rank in offsets for rank in identities)
    moved = {rank: shift(offsets.get(rank, ()), first_ns.get(rank, 0)) for rank in identities}
    origin = min((first_ns[rank] + moved[rank] for rank in first_ns), default=0)
    errors = [offset.error_ns for several in offsets.values() for offset in several]
    clock = Clock(
        aligned=known,
        error_ns=(0 if shared else max(errors, default=0)) if known else None,
        offsets_ns=tuple((rank, by) for rank, by in moved.items() if rank in offsets),
    )
    return Alignment(clock, offsets, origin)


def shift(offsets: tuple[Offset, ...], time_ns: int) -> int:
    """What to add to a rank's time to get rank 0's: drift is a straight line between two offsets."""
    if not offsets:
        return 0
    first, last = offsets[0], offsets[-1]
    if last.at_ns == first.at_ns:
        return -first.offset_ns
    share = (time_ns - first.offset_ns - first.at_ns) / (last.at_ns - first.at_ns)
    share = min(1.0, max(0.0, share))
    return -round(first.offset_ns + share * (last.offset_ns - first.offset_ns))
