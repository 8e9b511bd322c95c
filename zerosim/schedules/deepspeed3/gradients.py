"""Gradients of DeepSpeed's ZeRO-3: one bucket, reduced before the gradient that would not fit."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from zerosim.kinds import Kind
from zerosim.numerics import Numerics
from zerosim.plan import Allocation, PlanWriter
from zerosim.schedules.deepspeed3.modules import Tensor
from zerosim.schedules.deepspeed3.options import DeepSpeed3Options
from zerosim.units import dtype_bytes

_OUTSTANDING: Final = 2
"""Reductions that may be outstanding when the host issues one more (max_param_reduce_events)."""


@dataclass(slots=True)
class Gradients:
    """Writes what happens to gradients from their backward to this rank's shards of them.

    `bucket`: the parameters whose gradients are in it, as they came, with `elements` in all; `loose`:
    those that keep their own memory; `since`: backward ops that the reduction has to wait for;
    `events`: reductions that the host has not seen end; `n_buckets`: reductions of this micro-batch.
    """

    writer: PlanWriter
    numerics: Numerics
    options: DeepSpeed3Options
    tensors: tuple[Tensor, ...]
    n_ranks: int
    bucket: list[int] = field(default_factory=list)
    elements: int = 0
    loose: list[int] = field(default_factory=list)
    since: list[int] = field(default_factory=list)
    events: deque[int] = field(default_factory=deque)
    n_buckets: int = 0

    @property
    def stream(self) -> str:
        """Where copies and reductions run: beside the computation, or with it."""
        return "reduce_scatter" if self.options.overlap_comm else "compute"

    @property
    def kept_bytes(self) -> int:
        """Bytes of one element of a gradient shard."""
        return dtype_bytes(self.options.kept_dtype(self.numerics))

    @property
    def sent_bytes(self) -> int:
        """Bytes of one element of a gradient in the bucket."""
        return dtype_bytes(self.options.reduced_dtype(self.numerics))

    def held(self, shard: int) -> tuple[Allocation, ...]:
        """What a rank holds throughout: its gradient shards, and the bucket whatever the model."""
        kept = Allocation("gradients", "gradients", shard * self.kept_bytes)
        if not self.options.contiguous_gradients:
            return (kept,)
        nbytes = self.options.reduce_bucket_size * self.sent_bytes
        return (kept, Allocation("bucket", "buckets", nbytes))

    def made(self, p: int) -> Allocation:
        """The gradient of a parameter as the backward makes it."""
        nbytes = self.tensors[p].numel * self.numerics.param_bytes
        return Allocation(_gradient(p), "gradients", nbytes)

    def add(self, p: int, *, after: int) -> None:
        """The gradient of `p` is complete: it goes into the bucket, which may have to go first."""
        numel, room = self.tensors[p].numel, self.options.reduce_bucket_size
        if self.bucket and self.elements + numel > room:
            self.reduce()
        if self.options.contiguous_gradients and self.elements + numel <= room:
            self.writer.compute(
                Kind.FILL,
                self.tensors[p].layer,
                stream=self.stream,
                after=(after,),
                memory_bytes=numel * (self.numerics.param_bytes + self.sent_bytes),
                elements=numel,
                dtype=self.options.reduced_dtype(self.numerics),
                bucket=self.n_buckets,
                frees=(_gradient(p),),
            )
        else:
            self.loose.append(p)
        self.bucket.append(p)
        self.elements += numel
        self.since.append(after)

    def reduce(self) -> None:
        """Reduce the bucket, if there is anything in it, and keep this rank's shards."""
        if not self.bucket:
            return
        if len(self.events) > _OUTSTANDING:
            self.writer.wait((self.events.popleft(),), "reduce")
        options, label = self.options, self._label()
        fits = options.contiguous_gradients and self.elements <= options.reduce_bucket_size
        padded = sum(self.tensors[p].padded for p in self.bucket)
        shard = padded // self.n_ranks
        frees = tuple(_gradient(p) for p in self.loose)
        if fits and not options.reduce_scatter:
            self._collective(Kind.ALL_REDUCE, label, self.elements)
        else:
            frees = (*frees, *self._interleave(label, padded))
            self._collective(Kind.REDUCE_SCATTER, label, padded)
        kept = self.writer.compute(
            Kind.COPY,
            label,
            stream=self.stream,
            memory_bytes=shard * (self.sent_bytes + 2 * self.kept_bytes),
            frees=frees,
        )
        self.events.append(kept)
        self.bucket, self.loose, self.since = [], [], []
        self.elements = 0
        self.n_buckets += 1

    def finish(self) -> None:
        """After the backward: reduce the rest; the host waits for the reducing stream."""
        self.reduce()
        if self.events:
            self.writer.wait((self.events[-1],), "reduce")
        self.events.clear()
        self.n_buckets = 0

    def _interleave(self, label: str, padded: int) -> tuple[str, ...]:
        """Copy the bucket so that each rank's shards lie together; a lone gradient that divides is."""
        alone = len(self.bucket) == 1 and self.tensors[self.bucket[0]].numel == padded
        if alone:
            return ()
        nbytes = padded * self.sent_bytes
        self.writer.compute(
            Kind.COPY,
            label,
            stream=self.stream,
            name=f"flatten{label}",
            after=dict.fromkeys(self.since),
            memory_bytes=2 * nbytes,
            allocates=(Allocation("interleaved", "buckets", nbytes),),
        )
        return ("interleaved",)

    def _collective(self, kind: Kind, label: str, elements: int) -> None:
        self.writer.collective(
            kind,
            label,
            elements=elements,
            dtype=self.options.reduced_dtype(self.numerics),
            stream=self.stream,
            after=dict.fromkeys(self.since),
            bucket=self.n_buckets,
        )

    def _label(self) -> str:
        """Layers, not modules: what is reduced together seldom begins and ends with a module."""
        tensors = [self.tensors[p] for p in self.bucket]
        layers = list(dict.fromkeys(tensor.layer for tensor in tensors))
        return layers[0] if len(layers) == 1 else f"{layers[0]}-{layers[-1]}"


def _gradient(p: int) -> str:
    return f"gradient.{p}"
