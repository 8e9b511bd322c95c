"""What stands around an update: gradients cast, their norm, clipping, a number all ranks agree on."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from zerosim.kinds import Kind
from zerosim.numerics import Numerics
from zerosim.plan import ByRank, PlanWriter

FLOAT32: Final = 4
"""Bytes of a float32, in which masters and their gradients are."""


def scalar(writer: PlanWriter, unit: str, *, after: Iterable[int], dtype: str = "float32") -> int:
    """AR of one number, and the host waits for it, as `.item()` does; returns the id of the wait."""
    reduced = writer.collective(
        Kind.ALL_REDUCE, unit, elements=1, dtype=dtype, after=after, stream="compute"
    )
    return writer.wait((reduced,), unit)


def cast_bytes(elements: int, width: int) -> int:
    """Bytes that a cast between float32 and elements of `width` bytes reads and writes; none to itself."""
    return elements * (width + FLOAT32) if width != FLOAT32 else 0


def gradient_norm(
    writer: PlanWriter, nbytes: int, *, after: Iterable[int], nbytes_by_rank: ByRank | None = None
) -> int:
    """The norm of this rank's gradients of so many bytes, and ARnorm; returns what to wait for."""
    own = _own_norm(writer, nbytes, after, nbytes_by_rank)
    return scalar(writer, "norm", after=(own,))


def clipped(
    writer: PlanWriter,
    numerics: Numerics,
    nbytes: int,
    *,
    after: Iterable[int],
    group: str | None,
    nbytes_by_rank: ByRank | None = None,
) -> tuple[int, ...]:
    """Gradients clipped by their norm, if the numerics say so; returns what the update waits for.

    Each rank reads its gradients of so many bytes; their sums of squares are all-reduced in `group`
    (None: every rank has all of them); they are read and written once more. As torch's
    clip_grad_norm_ and FSDP's: the host does not wait.
    """
    if not numerics.clipping:
        return tuple(after)
    own = _own_norm(writer, nbytes, after, nbytes_by_rank)
    if group is not None:
        own = writer.collective(
            Kind.ALL_REDUCE,
            "norm",
            elements=1,
            dtype="float32",
            after=(own,),
            stream="compute",
            group=group,
            communicator=group,
        )
    both = None if nbytes_by_rank is None else tuple((n, 2 * own_) for n, own_ in nbytes_by_rank)
    clip = writer.compute(
        Kind.OTHER,
        "clip",
        name="clip",
        after=(own,),
        memory_bytes=2 * nbytes,
        memory_bytes_by_rank=both,
    )
    return (clip,)


def _own_norm(
    writer: PlanWriter, nbytes: int, after: Iterable[int], nbytes_by_rank: ByRank | None
) -> int:
    """This rank reads its gradients."""
    return writer.compute(
        Kind.OTHER,
        "norm",
        name="norm",
        after=after,
        memory_bytes=nbytes,
        memory_bytes_by_rank=nbytes_by_rank,
    )
