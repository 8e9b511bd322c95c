"""A communicator is a queue: one collective at a time, errors reach whoever waits."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import torch

from zerosim.errors import RuntimeFailedError
from zerosim.kinds import Kind
from zerosim_runtime.collectives import (
    Communicator,
    Handle,
    PeerLostError,
    _wait_in_turn,
    choose_backend,
    communicator,
)


class Work:
    """A collective that ends when it is told to, or fails."""

    def __init__(self, error: Exception | None = None) -> None:
        self.over, self.error = threading.Event(), error

    def wait(self) -> None:
        self.over.wait()
        if self.error is not None:
            raise self.error


def _queue(*works: Work, issued: list[int], ends: list[int]) -> list[Handle]:
    """Handles of works that were issued at these times and are seen to end at those."""
    group: Any = None
    times = iter(ends)
    made = Communicator(group, None, lambda: next(times))
    handles = [Handle(f"AG{i}", at) for i, at in enumerate(issued)]
    for handle, work in zip(handles, works, strict=True):
        made.queue.put((handle, work))
        work.over.set()
    made.queue.put(None)
    _wait_in_turn(made)
    return handles


def test_a_collective_begins_when_issued_or_when_the_one_before_has_ended() -> None:
    handles = _queue(Work(), Work(), Work(), issued=[10, 20, 90], ends=[50, 70, 95])
    assert [(h.start_ns, h.end_ns) for h in handles] == [(10, 50), (50, 70), (90, 95)]


def test_a_failed_collective_has_no_end_and_raises_where_it_is_waited_for() -> None:
    (handle,) = _queue(Work(RuntimeError("Connection closed")), issued=[10], ends=[50])
    assert handle.end_ns is None
    with pytest.raises(PeerLostError, match=r"'AG0' failed \(Connection closed\)"):
        handle.wait()


def test_the_ones_behind_a_failed_collective_are_waited_for_all_the_same() -> None:
    first, second = _queue(Work(RuntimeError("gone")), Work(), issued=[1, 2], ends=[5, 9])
    assert first.done.is_set()
    assert (second.start_ns, second.end_ns) == (2, 9)


@pytest.mark.usefixtures("alone")
def test_gathering_reducing_and_summing_alone_are_copies() -> None:
    channel = communicator("gloo", 30)
    for kind in (Kind.ALL_GATHER, Kind.REDUCE_SCATTER):
        output = torch.zeros(3)
        channel.issue(kind, "x", output, torch.tensor([1.0, 2.0, 3.0])).wait()
        assert output.tolist() == [1.0, 2.0, 3.0]
    both = torch.tensor([4.0])
    for kind in (Kind.ALL_REDUCE, Kind.BROADCAST, Kind.REDUCE):
        channel.issue(kind, "x", both, both).wait()
        assert both.tolist() == [4.0]
    channel.close()


@pytest.mark.usefixtures("alone")
def test_a_kind_without_a_real_collective_is_refused() -> None:
    channel = communicator("gloo", 30)
    with pytest.raises(RuntimeFailedError, match="no real 'scatter': use all_gather"):
        channel.issue(Kind.SCATTER, "x", torch.zeros(1), torch.zeros(1))
    channel.close()


@pytest.mark.usefixtures("alone")
def test_sizes_that_do_not_fit_are_told_with_the_name_of_the_op() -> None:
    channel = communicator("gloo", 30)
    with pytest.raises(PeerLostError, match="'AG7' failed"):
        channel.issue(Kind.ALL_GATHER, "AG7", torch.zeros(5), torch.zeros(3)).wait()
    channel.close()


@pytest.mark.parametrize(("gpus", "chosen"), [(0, "gloo"), (1, "gloo"), (2, "nccl"), (8, "nccl")])
def test_nccl_is_chosen_where_every_rank_has_a_gpu(
    monkeypatch: pytest.MonkeyPatch, gpus: int, chosen: str
) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    assert choose_backend("auto", 2) == chosen


def test_nccl_without_enough_gpus_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    assert choose_backend("gloo", 2) == "gloo"
    with pytest.raises(RuntimeFailedError, match="nccl needs 2 GPUs, there are 1: use gloo"):
        choose_backend("nccl", 2)
