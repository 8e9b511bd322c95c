"""What a gather passes through: rows as they arrive from the ranks, before parameters are put together.

# Note [Rows of a gather]
An all-gather delivers its output by rank, `[world_size, elements of a shard]`, but a parameter wants to
lie in one piece. So real ranks gather into a buffer of the whole output, and copy from there when a layer
waits for it: until then a unit takes twice its size. After an update, parameters are also copied from
their places into the shard that travels; there the host lets two gathers be under way: with the third
it waits for the first and drops its buffers, and with the last of a step for all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import groupby
from typing import Final

from zerosim.kinds import PREFIX, Kind
from zerosim.plan import Allocation, Op, Plan

SCHEDULES: Final = ("zero1", "zero2", "zero3")
"""Those whose gathers real ranks carry out so."""
_UNDER_WAY: Final = 2


def with_rows(plan: Plan) -> Plan:
    """`plan`, whose all-gathers take the buffers that real ranks need, with copies out of them."""
    buffered = [op for ops in _steps(plan) for op in _after_update(ops, plan.world_size)]
    return replace(plan, ops=tuple(_with_copies(buffered)))


def _steps(plan: Plan) -> Iterator[list[Op]]:
    for _, ops in groupby(plan.ops, key=lambda op: op.step):
        yield list(ops)


def _after_update(ops: list[Op], n_ranks: int) -> Iterator[Op]:
    """The gathers of a step's end with their buffers, and what each waits for and drops."""
    gathers = [op for op in ops if op.kind is Kind.ALL_GATHER and op.bucket is not None]
    for op in ops:
        if op not in gathers:
            yield op
            continue
        i = gathers.index(op)
        ended = gathers[i - _UNDER_WAY : i - _UNDER_WAY + 1] if i >= _UNDER_WAY else []
        last = gathers[-_UNDER_WAY:] if op is gathers[-1] else []
        yield replace(
            op,
            after=(*op.after, *(other.id for other in ended)),
            allocates=(*op.allocates, *_buffers(op, n_ranks)),
            frees=(*op.frees, *_keys([*ended, *last], n_ranks)),
        )


def _with_copies(ops: Iterable[Op]) -> Iterator[Op]:
    """Gathers of units with their rows, each copied out before the first op that waits for it."""
    numbers: dict[int, int] = {}
    waiting: dict[int, Op] = {}
    count = 0
    for op in ops:
        for gather in [waiting.pop(before) for before in op.after if before in waiting]:
            yield _copy(gather, count, numbers[gather.id], op)
            count += 1
        numbers[op.id] = count
        made = op.allocates
        if op.kind is Kind.ALL_GATHER and op.bucket is None:
            waiting[op.id] = op
            made = (*made, _rows(op))
        after = tuple(numbers[before] for before in op.after)
        yield replace(op, id=count, after=after, allocates=made)
        count += 1


def _copy(gather: Op, number: int, after: int, user: Op) -> Op:
    return Op(
        number,
        f"{PREFIX[Kind.COPY]}{gather.unit}",
        Kind.COPY,
        "compute",
        after=(after,),
        unit=gather.unit,
        memory_bytes=2 * (gather.nbytes or 0),
        frees=(_rows(gather).key,),
        step=user.step,
        micro_batch=user.micro_batch,
    )


def _rows(op: Op) -> Allocation:
    """The output of a gather, by rank."""
    return Allocation(f"rows.{op.id}", "workspace", op.nbytes or 0)


def _buffers(op: Op, n_ranks: int) -> tuple[Allocation, Allocation]:
    """The output of a gather, and what this rank gives to it."""
    return _rows(op), Allocation(f"own.{op.id}", "workspace", (op.nbytes or 0) // n_ranks)


def _keys(ops: Iterable[Op], n_ranks: int) -> tuple[str, ...]:
    return tuple(a.key for op in ops for a in _buffers(op, n_ranks))
