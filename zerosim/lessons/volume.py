"""What a step sends: the closed form of the paper with its numbers filled in, and what the run sent."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from zerosim.analysis.summary import bytes_sent
from zerosim.kinds import Kind
from zerosim.plan import Op, Plan
from zerosim.trace import Trace
from zerosim.units import dtype_bytes


@dataclass(frozen=True, slots=True)
class Volume:
    """Bytes that one rank sends in a step. Ψ (`n_elements`) and P_last are elements, with padding.

    `formula` names the closed form, `closed_bytes` is its value, `sent_bytes` what the run did.
    """

    formula: str
    n_elements: int
    last_elements: int | None
    n_ranks: int
    element_bytes: int
    closed_bytes: int
    sent_bytes: int | None


def volume(plan: Plan, trace: Trace) -> Volume:
    """The volume of the last step of `plan`, which `trace` ran."""
    step = max(op.step for op in plan.ops)
    ops = [op for op in plan.ops if op.step == step and op.elements is not None]
    reduced = _elements(ops, Kind.REDUCE_SCATTER) or _elements(ops, Kind.ALL_REDUCE)
    gathered = _elements(ops, Kind.ALL_GATHER)
    last = 2 * reduced - gathered if gathered > reduced else 0
    travels = next(op.dtype for op in ops if op.kind is not Kind.FILL and op.dtype)
    n, size = plan.world_size, dtype_bytes(travels)
    times = 3 if gathered > reduced else 2
    return Volume(
        formula="(3Ψ - P_last)(N - 1)/N" if last else f"{times}Ψ(N - 1)/N",
        n_elements=reduced,
        last_elements=last or None,
        n_ranks=n,
        element_bytes=size,
        closed_bytes=(times * reduced - last) * (n - 1) * size // n,
        sent_bytes=bytes_sent(trace, step),
    )


def _elements(ops: Iterable[Op], kind: Kind) -> int:
    return sum(op.elements or 0 for op in ops if op.kind is kind)
