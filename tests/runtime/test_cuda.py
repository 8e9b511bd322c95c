"""Events as times, and streams that wait: on a device that is played, since most machines have none."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.runtime.played import Device, Stream
from zerosim_runtime import cuda
from zerosim_runtime.cuda import Bridge, Issued, Stamps, bridge_to, issue


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Device:
    played = Device()
    monkeypatch.setattr(cuda, "_cuda", played)
    return played


def _stamps(device: Device, at_ns: int) -> Stamps:
    event = device.Event(enable_timing=True)
    event.record()
    return Stamps(Bridge(event, at_ns, 5))


def test_an_event_lies_as_far_behind_the_bridge_as_the_device_says(device: Device) -> None:
    stamps = _stamps(device, at_ns=1_000_000)
    device.now = 2_500_000

    assert stamps().read() == 3_500_000


def test_a_stream_that_is_not_there_yet_has_no_time(device: Device) -> None:
    stamp = _stamps(device, at_ns=0)()
    stamp.event.passed = False

    assert stamp.read() is None


def test_after_a_second_the_next_event_is_the_bridge_so_that_times_stay_exact(
    device: Device,
) -> None:
    stamps = _stamps(device, at_ns=0)
    for second in range(1, 1001):
        device.now = second * 1_100_000_000 + 7
        assert abs((stamps().read() or 0) - device.now) <= 100 * second

    assert stamps.bridge.at_ns > 1_000_000_000_000


def test_the_narrowest_of_several_bridges_counts(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    readings = iter([0, 100, 200, 210, 300, 360] + [n * 1000 for n in range(100)])
    monkeypatch.setattr("time.perf_counter_ns", lambda: next(readings))

    found = bridge_to(torch.device("cpu"))

    assert (found.at_ns, found.error_ns) == (205, 5)
    assert device.log[0] == "synchronize"


def test_a_collective_runs_after_its_caller_and_holds_up_a_stream_not_the_host(
    device: Device,
) -> None:
    side: Any = Stream(device, "comm")
    bucket = torch.zeros(4)

    issued = issue(
        side, _stamps(device, 0), (bucket,), lambda: device.log.append(f"on {device.current.name}")
    )
    issued.hold_up_stream()

    assert device.log == [
        "comm waits for compute",
        "on comm",
        "compute waits for event of comm",
    ]
    assert issued.times() == (0, 0)


def test_tensors_are_held_until_their_own_stream_waits_or_the_collective_has_ended(
    device: Device,
) -> None:
    side: Any = Stream(device, "comm")
    compute, other = device.current, Stream(device, "other")

    def started() -> Issued:
        return issue(side, _stamps(device, 0), (torch.zeros(4),), lambda: None)

    waited, passed = started(), started()
    device.current = other
    waited.hold_up_stream()
    assert len(waited.tensors) == 1  # another stream's wait says nothing of the one that made them
    device.current = compute
    waited.hold_up_stream()
    passed.times()

    assert (len(waited.tensors), len(passed.tensors)) == (0, 0)
