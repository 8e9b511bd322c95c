"""Writes a plan op by op, as the host of a rank would issue them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from zerosim.kinds import PREFIX, Kind
from zerosim.plan.ops import Allocation, ByRank, Op
from zerosim.workload import Work


@dataclass(slots=True)
class PlanWriter:
    """Writes a plan op by op, in issue order; each op belongs to the current step and micro-batch."""

    ops: list[Op] = field(default_factory=list)
    step: int = 1
    micro_batch: int = 0

    def compute(
        self,
        kind: Kind,
        unit: str,
        *,
        after: Iterable[int] = (),
        flops: int = 0,
        memory_bytes: int = 0,
        memory_bytes_by_rank: ByRank | None = None,
        work: Work | None = None,
        stream: str = "compute",
        name: str | None = None,
        elements: int | None = None,
        dtype: str | None = None,
        bucket: int | None = None,
        allocates: tuple[Allocation, ...] = (),
        frees: tuple[str, ...] = (),
    ) -> int:
        """Append an op that computes, copies or fills; returns its id."""
        return self._append(
            Op(
                id=len(self.ops),
                name=name or PREFIX[kind] + unit,
                kind=kind,
                stream=stream,
                after=tuple(after),
                unit=unit or None,
                flops=flops,
                memory_bytes=memory_bytes,
                memory_bytes_by_rank=memory_bytes_by_rank,
                work=work,
                elements=elements,
                dtype=dtype,
                bucket=bucket,
                allocates=allocates,
                frees=frees,
                step=self.step,
                micro_batch=self.micro_batch,
            )
        )

    def collective(
        self,
        kind: Kind,
        unit: str,
        *,
        elements: int,
        dtype: str,
        after: Iterable[int] = (),
        stream: str | None = None,
        name: str | None = None,
        group: str = "world",
        communicator: str = "world",
        bucket: int | None = None,
        allocates: tuple[Allocation, ...] = (),
        frees: tuple[str, ...] = (),
    ) -> int:
        """Append a collective, on the stream of its kind unless another is named; returns its id."""
        return self._append(
            Op(
                id=len(self.ops),
                name=name or PREFIX[kind] + unit,
                kind=kind,
                stream=stream or kind.value,
                after=tuple(after),
                unit=unit,
                elements=elements,
                dtype=dtype,
                group=group,
                communicator=communicator,
                bucket=bucket,
                allocates=allocates,
                frees=frees,
                step=self.step,
                micro_batch=self.micro_batch,
            )
        )

    def wait(self, after: Iterable[int], unit: str = "", *, frees: tuple[str, ...] = ()) -> int:
        """The host waits until the ops `after` have ended (an event's or a stream's synchronize)."""
        return self._append(
            Op(
                id=len(self.ops),
                name=PREFIX[Kind.WAIT] + unit,
                kind=Kind.WAIT,
                stream="host",
                after=tuple(after),
                unit=unit or None,
                frees=frees,
                blocks=True,
                step=self.step,
                micro_batch=self.micro_batch,
            )
        )

    def drop(self, keys: tuple[str, ...]) -> None:
        """The host drops these once it has issued the last op."""
        self.ops[-1] = replace(self.ops[-1], frees=(*self.ops[-1].frees, *keys))

    def _append(self, op: Op) -> int:
        self.ops.append(op)
        return op.id
