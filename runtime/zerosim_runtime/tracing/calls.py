"""A collective under way, and the span that it becomes once its times are known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from zerosim.kinds import PREFIX, Kind
from zerosim_runtime.tracing.asked import Sort
from zerosim_runtime.tracing.device_times import Timing
from zerosim_runtime.tracing.groups import Seen
from zerosim_runtime.tracing.labels import Label
from zerosim_runtime.tracing.spans import Span


@dataclass(slots=True)
class Call:
    """What is noted while it is issued; see Note [Little per collective].

    `group`: of a message, the pair of its ends. `slot`: its place in the ring; `work` None: over, or
    nobody can tell. `awaited`: whoever times it (the worker's record, torch's profiler, a device) will
    still say.
    """

    number: int
    issued_ns: int
    sort: Sort
    seen: Seen
    label: Label
    group: str
    seq: int | None
    unit: str | None
    bucket: int | None
    step: int | None
    micro_batch: int | None
    slot: int
    awaited: bool = False
    work: Any | None = None
    start_ns: int | None = None
    end_ns: int | None = None
    called_back: bool = False
    timing: Timing | None = None
    """Of one on a GPU; see Note [Times of NCCL]."""

    @property
    def kind(self) -> Kind:
        """What it stands for, as its caller says or as it is."""
        return self.label.kind or self.sort.asked.kind

    @property
    def stream(self) -> str:
        """The queue that it waits in."""
        if self.label.stream:
            return self.label.stream
        return f"{self.seen.name} p2p" if self.kind is Kind.P2P else self.seen.name


def span_of(call: Call, stream: str, start_ns: int | None, end_ns: int | None) -> Span:
    """The span of a call that lay on that stream, then."""
    asked, elements = call.sort.asked, call.label.elements
    nbytes = asked.nbytes if elements is None else elements * call.sort.element_bytes
    return Span(
        kind=call.kind.value,
        name=_name(call),
        stream=stream,
        issued_ns=call.issued_ns,
        start_ns=start_ns,
        end_ns=end_ns,
        unit=call.unit,
        step=call.step,
        micro_batch=call.micro_batch,
        group=call.group,
        seq=call.seq,
        elements=asked.elements if elements is None else elements,
        nbytes=nbytes,
        wire_bytes=call.sort.sent_bytes,
        dtype=asked.dtype,
        bucket=call.bucket,
    )


def _name(call: Call) -> str:
    kind, asked = call.kind, call.sort.asked
    if kind is Kind.P2P:
        peer = "?" if asked.peer is None else call.seen.global_rank(asked.peer)
        return f"send>{peer}" if asked.sends else f"recv<{peer}"
    word = PREFIX.get(kind, kind.value)
    return f"{word}{call.bucket if call.bucket is not None else call.unit or ''}"
