"""Bytes alive: storages count from when they are seen until they are gone, gradients apart."""

from __future__ import annotations

import torch

from zerosim_runtime.extraction.live import Live
from zerosim_runtime.extraction.segments import Segment


def test_a_storage_counts_once_and_until_it_is_gone() -> None:
    live = Live(held=set(), awaited={})
    x = torch.zeros(10)
    live.see([x, x.view(2, 5)])
    assert live.nbytes == 40
    del x
    assert live.nbytes == 0


def test_what_is_held_does_not_count() -> None:
    x = torch.zeros(10)
    live = Live(held={x.untyped_storage()._cdata}, awaited={})
    live.see([x])
    assert live.nbytes == 0


def test_the_most_of_a_forward_is_noted() -> None:
    live, segment = Live(held=set(), awaited={}), Segment(0, 0)
    x = torch.zeros(10)
    live.see([x])
    live.measure_forward(segment)
    del x
    live.measure_forward(segment)
    assert segment.peak_bytes == [40, 0]


def test_gradients_of_others_do_not_count_in_a_backward_and_shared_ones_count_from_the_first() -> (
    None
):
    live = Live(held=set(), awaited={1: 40, 2: 8})
    head, first = Segment(0, 0, used={1}), Segment(0, 1, used={1, 2})
    made = torch.zeros(10)
    live.see([made])
    live.end_backward(head)
    live.measure_backward(first, last=False)
    assert (head.gradient_bytes, first.peak_bytes[1]) == (40, 0)
    live.made(1, first)  # the parameter gets it only now
    live.made(2, first)
    assert (live.gradients, first.gradient_bytes) == (48, 8)


def test_the_answer_is_there_for_the_last_layer_alone() -> None:
    live = Live(held=set(), awaited={})
    scores = torch.zeros(4)
    live.see([scores])
    live.end_forward([scores])
    live.see([scores.view(2, 2)])
    last, other = Segment(0, 0), Segment(0, 1)
    live.measure_backward(last, last=True)
    live.measure_backward(other, last=False)
    assert (last.peak_bytes[1], other.peak_bytes[1]) == (16, 0)
