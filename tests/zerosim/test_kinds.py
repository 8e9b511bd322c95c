"""Kinds: a closed list, each of them on one side of the accounts."""

from __future__ import annotations

from zerosim.kinds import COMMUNICATION, COMPUTE, HOST_SIDE, KINDS, MEMORY, ORDERED, PREFIX, Kind


def test_every_kind_is_communication_compute_memory_or_host_and_only_one_of_them() -> None:
    sides = [*COMMUNICATION, *COMPUTE, *MEMORY, *HOST_SIDE]
    assert sorted(sides) == sorted(Kind)
    assert len(sides) == len(set(sides))


def test_kinds_are_written_as_the_trace_format_says() -> None:
    assert KINDS[:6] == (
        "forward",
        "backward",
        "recompute",
        "all_gather",
        "reduce_scatter",
        "all_reduce",
    )


def test_prefixes_tell_kinds_apart() -> None:
    assert len(set(PREFIX.values())) == len(PREFIX)


def test_the_order_of_a_step_names_what_runs_and_not_what_only_fills_or_waits() -> None:
    assert Kind.FORWARD in ORDERED
    assert Kind.OPTIMIZER in ORDERED
    assert Kind.FILL not in ORDERED
    assert Kind.WAIT not in ORDERED
