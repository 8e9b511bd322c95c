"""Times of collectives on a GPU, from events and NCCL's own durations, on a played device."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from tests.runtime.played import Device
from zerosim.kinds import Kind
from zerosim_runtime import cuda
from zerosim_runtime.ring import Ring, open_ring
from zerosim_runtime.tracing import device_times
from zerosim_runtime.tracing.asked import Asked, Sort
from zerosim_runtime.tracing.calls import Call
from zerosim_runtime.tracing.device_times import DeviceTimes, Timing, is_asynchronous
from zerosim_runtime.tracing.labels import NOTHING
from zerosim_runtime.tracing.pending import Pending
from zerosim_runtime.tracing.spans import Span

ON_GPU: Any = SimpleNamespace(device=torch.device("cuda", 0))
BRIDGED = 1_000
"""When the played device's time 0 is, on the host's clock."""


class Work:
    """Plays a Work of NCCL; `duration_ms` None: timing is off."""

    def __init__(self, duration_ms: float | None = None, *, completed: bool = True) -> None:
        self.duration_ms, self.completed = duration_ms, completed

    def is_completed(self) -> bool:
        return self.completed

    def _get_duration(self) -> float:
        if self.duration_ms is None:
            raise RuntimeError("getDuration only works if timing was enabled")
        return self.duration_ms


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Device:
    played = Device()
    event = played.Event(enable_timing=True)
    event.record()
    made = cuda.Stamps(cuda.Bridge(event, BRIDGED, 5))
    monkeypatch.setattr(cuda, "_cuda", played)
    monkeypatch.setattr(device_times, "_cuda", played)
    monkeypatch.setattr(device_times, "stamps_of", lambda _: made)
    return played


@pytest.fixture
def ring(tmp_path: Path) -> Ring:
    return open_ring(tmp_path, 0)


def begun(times: DeviceTimes, *, asynchronous: bool, group: str | None = "world") -> Timing:
    args = (ON_GPU, ON_GPU, None, asynchronous)
    timing = times.begin("_allgather_base_", args, ON_GPU, "nccl", group)
    assert timing is not None
    timing.issued()
    return timing


def call(number: int, timing: Timing, work: Work) -> Call:
    asked = Asked(Kind.ALL_GATHER, 4, 16, "float32")
    sort = Sort(asked, 8, "gloo:all_gather", 1, silent=False, element_bytes=4, backend="nccl")
    seen: Any = SimpleNamespace(name="world")
    noted = Call(
        number, BRIDGED, sort, seen, NOTHING, "world", number, "", None, None, None, slot=-1
    )
    noted.work, noted.timing = work, timing
    return noted


def test_a_collective_on_its_callers_stream_is_bracketed_by_two_events(device: Device) -> None:
    device.now = 10_000
    args = (ON_GPU, ON_GPU, None, False)
    timing = DeviceTimes().begin("_allgather_base_", args, ON_GPU, "nccl", "world")
    assert timing is not None
    device.now = 45_000
    timing.issued()

    assert timing.over(Work())
    assert timing.times(Work()) == (11_000, 46_000)


def test_asynchronous_ones_of_a_group_run_one_after_the_other_as_long_as_nccl_says(
    device: Device,
) -> None:
    times = DeviceTimes()
    device.now = 10_000
    first, second, other = (
        begun(times, asynchronous=True),
        begun(times, asynchronous=True),
        begun(times, asynchronous=True, group="other"),
    )

    assert first.times(Work(0.030)) == (11_000, 41_000)
    assert second.times(Work(0.002)) == (41_000, 43_000)
    assert other.times(Work(0.005)) == (11_000, 16_000)


@pytest.mark.usefixtures("device")
def test_without_timing_of_nccl_nobody_knows_the_end() -> None:
    assert begun(DeviceTimes(), asynchronous=True).times(Work(None)) is None


def test_cpus_other_backends_and_captured_graphs_are_left_alone(device: Device) -> None:
    times, args = DeviceTimes(), (ON_GPU, ON_GPU, None, True)
    on_cpu = torch.zeros(1)

    assert times.begin("_allgather_base_", args, on_cpu, "nccl", "world") is None
    assert times.begin("_allgather_base_", args, None, "nccl", "world") is None
    assert times.begin("_allgather_base_", args, ON_GPU, "gloo", "world") is None
    device.capturing = True
    assert times.begin("_allgather_base_", args, ON_GPU, "nccl", "world") is None
    assert device.log == []


def test_torch_says_where_the_argument_lies_that_makes_a_call_asynchronous() -> None:
    assert is_asynchronous("allreduce_", ([], None, None, None, True, -1))
    assert not is_asynchronous("allreduce_", ([], None, None, None, False, -1))
    assert is_asynchronous("allreduce_", ([], None, None))
    assert is_asynchronous("send", ([], None, 1, 0))


def test_what_has_ended_is_added_and_nothing_behind_one_that_runs(
    device: Device, ring: Ring
) -> None:
    spans: list[Span] = []
    pending, times = Pending(spans.append, ring), DeviceTimes()
    device.now = 10_000
    works = [Work(0.030), Work(0.002, completed=False), Work(0.001)]
    for number, work in enumerate(works):
        pending.put(call(number, begun(times, asynchronous=True), work))

    assert pending.sweep()  # none of them keeps the worker's record from being read
    assert [(span.start_ns, span.end_ns) for span in spans] == [(11_000, 41_000)]

    works[1].completed = True
    pending.sweep()
    assert [(span.start_ns, span.end_ns) for span in spans[1:]] == [
        (41_000, 43_000),
        (43_000, 44_000),
    ]
    assert pending.calls == {}


@pytest.mark.usefixtures("device")
def test_one_on_its_callers_stream_is_over_once_that_is_past_it(ring: Ring) -> None:
    spans: list[Span] = []
    pending = Pending(spans.append, ring)
    timing = begun(DeviceTimes(), asynchronous=False)
    assert timing.ended is not None
    timing.ended.event.passed = False
    pending.put(call(0, timing, Work()))

    pending.sweep()
    assert spans == []

    timing.ended.event.passed = True
    pending.sweep()
    assert [(span.start_ns, span.end_ns) for span in spans] == [(BRIDGED, BRIDGED)]


@pytest.mark.usefixtures("device")
def test_what_nobody_timed_stays_with_its_issue_alone(ring: Ring) -> None:
    spans: list[Span] = []
    pending = Pending(spans.append, ring)
    pending.put(call(0, begun(DeviceTimes(), asynchronous=True), Work(None)))
    pending.sweep()

    assert [(span.issued_ns, span.start_ns, span.end_ns) for span in spans] == [
        (BRIDGED, None, None)
    ]


def test_reading_the_workers_record_leaves_what_runs_on_a_gpu_alone(
    device: Device, ring: Ring
) -> None:
    spans: list[Span] = []
    pending, work = Pending(spans.append, ring), Work(0.030, completed=False)
    device.now = 10_000
    pending.put(call(0, begun(DeviceTimes(), asynchronous=True), work))

    pending.settle({})
    assert spans == []

    work.completed = True
    pending.sweep()
    assert [(span.start_ns, span.end_ns) for span in spans] == [(11_000, 41_000)]
