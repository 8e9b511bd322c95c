"""Marks, steps and memory instants of a Kineto file."""

from __future__ import annotations

import pytest

from zerosim.importers.kineto.events import Slice
from zerosim.importers.kineto.marks import phases, unit_of
from zerosim.importers.kineto.memory import memory_samples
from zerosim.importers.kineto.steps import step_at, step_windows
from zerosim.importers.recording import Window


def piece(name: str, start: int, end: int, **args: object) -> Slice:
    named = {key.replace("_", " "): value for key, value in args.items()}
    return Slice(start, end, name, "user_annotation", (1, 1), named, 0)


@pytest.mark.parametrize(
    ("mark", "unit"),
    [
        ("FSDP::all_gather (blocks.0)", "blocks.0"),
        ("FSDP::all_gather", "root"),
        ("FSDP::backward_prefetch for blocks.2", "blocks.2"),
        ("FSDP::post_backward_reduce (model.layers.11)", "model.layers.11"),
        ("FullyShardedDataParallel.forward", None),
        ("nccl:all_reduce", None),
    ],
)
def test_fsdp_marks_name_their_unit(mark: str, unit: str | None) -> None:
    assert unit_of(mark) == unit


def test_a_phase_lasts_from_its_first_mark_to_the_next_of_its_unit() -> None:
    marks = [
        piece("FSDP::pre_forward", 0, 2),
        piece("FSDP::pre_forward (b)", 3, 4),
        piece("FSDP::post_forward (b)", 8, 9),
        piece("FSDP::post_forward", 10, 12),
        piece("FSDP::pre_forward (b)", 20, 21),
    ]
    found = [
        (p.name, p.start, p.end) for p in phases(marks, "FSDP::pre_forward", "FSDP::post_forward")
    ]
    assert found == [("b", 3, 9), ("root", 0, 12)]


def test_steps_are_windows_in_time_order() -> None:
    marks = [piece("ProfilerStep#6", 20, 30), piece("ProfilerStep#5", 10, 20)]
    assert step_windows(marks) == (Window(5, 10, 20), Window(6, 20, 30))


def test_of_several_rows_of_a_step_the_longest_counts() -> None:
    marks = [piece("ProfilerStep#5", 10, 12), piece("ProfilerStep#5", 10, 20)]
    assert step_windows(marks) == (Window(5, 10, 20),)


@pytest.mark.parametrize("number", ["", "x", "-1", "5.5", "99999999999", "²"])
def test_a_step_without_a_number_is_none(number: str) -> None:
    assert step_windows([piece(f"ProfilerStep#{number}", 0, 9)]) == ()


def test_a_moment_belongs_to_the_step_it_lies_in() -> None:
    windows = (Window(5, 10, 20), Window(6, 22, 30))
    assert step_at(windows, [9, 10, 19, 20, 21, 22, 30, None]) == [
        *(None, 5, 5, None, None, 6, None, None),
    ]


def instant(moment: int, allocated: object, kind: int, index: int, **more: object) -> Slice:
    return piece(
        "[memory]",
        moment,
        moment,
        Total_Allocated=allocated,
        Device_Type=kind,
        Device_Id=index,
        **more,
    )


def rows(instants: list[Slice], device: int | None) -> list[tuple[object, ...]]:
    return memory_samples(instants, device).rows()


def test_memory_is_that_of_the_ranks_gpu() -> None:
    instants = [
        instant(3, 300, 1, 3, Total_Reserved=512),
        instant(1, 100, 1, 3, Total_Reserved=512),
        instant(2, 999, 0, -1, Total_Reserved=0),
        instant(2, 777, 1, 0, Total_Reserved=0),
    ]
    assert rows(instants, 3) == [
        (1, "memory.allocated", 100),
        (1, "memory.reserved", 512),
        (3, "memory.allocated", 300),
        (3, "memory.reserved", 512),
    ]


def test_without_a_gpu_memory_is_the_hosts_and_nothing_is_reserved() -> None:
    assert rows([instant(1, 64, 0, -1, Total_Reserved=0)], None) == [(1, "memory.allocated", 64)]


def test_instants_without_figures_are_passed_over() -> None:
    broken = [instant(1, None, 1, 0), instant(2, -5, 1, 0), instant(3, 2**70, 1, 0)]
    assert rows([*broken, instant(4, 8, 1, 0)], 0) == [(4, "memory.allocated", 8)]
    assert rows([piece("[memory]", 1, 1)], None) == []
