"""Streams of spans that overlap: each takes the first lane that is free when it starts.

# Note [Lanes]
A stream runs one op at a time. Gloo gives a group two workers, so its collectives may overlap; then the
second one lies on a stream of its own (`world 2`), for that long.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Lanes:
    """When the last span of each lane of each stream ended."""

    ends: dict[str, list[int]] = field(default_factory=dict)

    def place(self, stream: str, start_ns: int, end_ns: int) -> str:
        """The stream that a span lies on; spans should come in the order of their starts."""
        ends = self.ends.setdefault(stream, [])
        for lane, end in enumerate(ends):
            if end <= start_ns:
                ends[lane] = end_ns
                return _name(stream, lane)
        ends.append(end_ns)
        return _name(stream, len(ends) - 1)


def _name(stream: str, lane: int) -> str:
    return stream if lane == 0 else f"{stream} {lane + 1}"
