"""The optimizer step of DeepSpeed's ZeRO-3: checks, sub-group by sub-group, persistent parameters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from zerosim.kinds import Kind
from zerosim.numerics import Numerics
from zerosim.plan import Allocation, PlanWriter
from zerosim.schedules.deepspeed3.modules import Tensor
from zerosim.schedules.deepspeed3.options import DeepSpeed3Options
from zerosim.schedules.deepspeed3.walk import Walk
from zerosim.schedules.layers import last_computed

_FP32_BYTES: Final = 4
_NORM_DTYPE: Final = "float64"
"""Norms of gradients are summed in double precision (zero/utils.py, get_norm_dtype)."""


@dataclass(slots=True)
class Update:
    """Writes what a step does after its last backward."""

    writer: PlanWriter
    numerics: Numerics
    options: DeepSpeed3Options
    tensors: tuple[Tensor, ...]
    n_ranks: int
    walk: Walk

    @property
    def shard(self) -> int:
        """Elements of all parameters that a rank holds, padding included."""
        return sum(tensor.padded for tensor in self.tensors) // self.n_ranks

    def sub_groups(self) -> list[int]:
        """Elements of this rank's shard in each sub-group: parameters in order, the last overshoots."""
        size = self.options.sub_group_size
        if size >= self.shard:
            return [self.shard]
        groups = [0]
        for i, tensor in enumerate(self.tensors):
            groups[-1] += tensor.padded // self.n_ranks
            if groups[-1] >= size and i + 1 < len(self.tensors):
                groups.append(0)
        return groups

    def step(self) -> None:
        """Drop all parameters, check the gradients, update, gather the persistent parameters."""
        self.walk.gathers.drop(self.walk.coordinator.partition_all(), self.walk.last)
        groups = self.sub_groups()
        if self.numerics.dtype == "float16":
            self._check(Kind.ALL_REDUCE, "overflow", 1, "uint8")
        for _ in groups:
            check = self._check(Kind.ALL_REDUCE, "norm", 1, _NORM_DTYPE)
        self.writer.wait((check,), "norm")
        for i, elements in enumerate(groups):
            updated = self._update(f"{i}" if len(groups) > 1 else "", elements)
        self.walk.gathers.restart((updated,))
        self._gather_persistent(updated)

    def compare_traces(self) -> None:
        """Ranks make sure that they recorded the same: once nothing, once modules, uses, steps.

        The engine does it as the next forward begins; here it ends the micro-batch it is about.
        """
        trace, uses = self.walk.coordinator.trace, self.walk.coordinator.uses()
        for length in (len(trace), len(uses), len(uses)) if trace else (0,):
            for elements in (1, length):
                check = self._check(Kind.BROADCAST, "trace", elements, "int64")
                self.writer.wait((check,), "trace")

    def _check(self, kind: Kind, what: str, elements: int, dtype: str) -> int:
        """A collective of a few numbers that the ranks have to agree on."""
        after = last_computed(self.writer)
        return self.writer.collective(kind, what, elements=elements, dtype=dtype, after=after)

    def _update(self, label: str, elements: int) -> int:
        """OPT of one sub-group, with its gradients copied to float32."""
        kept = self.walk.gradients.kept_bytes
        copy = Allocation(f"fp32.{label}", "gradients", elements * _FP32_BYTES)
        self.writer.compute(
            Kind.COPY,
            label,
            name=f"cast{label}",
            memory_bytes=elements * (kept + _FP32_BYTES),
            allocates=(copy,),
        )
        return self.writer.compute(
            Kind.OPTIMIZER,
            label,
            memory_bytes=elements * self.numerics.update_bytes,
            frees=(copy.key,),
        )

    def _gather_persistent(self, updated: int) -> None:
        """AG of each persistent parameter alone; the host waits for all of them."""
        persistent = sorted(self.walk.coordinator.persistent)
        for p in persistent:
            tensor = self.tensors[p]
            label = f"{tensor.layer}.{tensor.name}"
            last = self.walk.gathers.alone(p, after=(updated,), label=label)
        if persistent:
            self.writer.wait((last,), "persistent")
        self.walk.coordinator.keep_persistent()
