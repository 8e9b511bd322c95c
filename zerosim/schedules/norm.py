"""The gradient norm before an update: each rank's part, one number all-reduced, and the host waits."""

from __future__ import annotations

from collections.abc import Iterable

from zerosim.kinds import Kind
from zerosim.plan import ByRank, PlanWriter


def scalar(writer: PlanWriter, unit: str, *, after: Iterable[int], dtype: str = "float32") -> int:
    """AR of one number, and the host waits for it, as `.item()` does; returns the id of the wait."""
    reduced = writer.collective(
        Kind.ALL_REDUCE, unit, elements=1, dtype=dtype, after=after, stream="compute"
    )
    return writer.wait((reduced,), unit)


def gradient_norm(
    writer: PlanWriter, nbytes: int, *, after: Iterable[int], nbytes_by_rank: ByRank | None = None
) -> int:
    """The norm of this rank's gradients of so many bytes, and ARnorm; returns what to wait for."""
    own = writer.compute(
        Kind.OTHER,
        "norm",
        name="norm",
        after=after,
        memory_bytes=nbytes,
        memory_bytes_by_rank=nbytes_by_rank,
    )
    return scalar(writer, "norm", after=(own,))
