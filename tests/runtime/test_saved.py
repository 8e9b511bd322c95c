"""Saved activations are measured: every storage once, without what others hold."""

from __future__ import annotations

import torch
from torch.nn import functional as F  # noqa: N812 - torch's own custom

from zerosim_runtime.saved import Saved, watching


def test_a_tensor_saved_by_two_ops_counts_once_for_the_layer_that_saved_it_first() -> None:
    saved, weight = Saved(), torch.ones(4, 4, requires_grad=True)
    x = torch.ones(2, 4)
    saved.reset((x,))
    with watching(saved):
        saved.enter("0", 0, weight)
        y = F.linear(torch.tanh(x), weight)
        saved.enter("1", 0, weight)
        torch.tanh(y).sum()
    # layer 0 keeps tanh(x) for its weight, layer 1 its tanh: 8 elements of 4 bytes each
    assert saved.kept == {"0": 32, "1": 32}


def test_parameters_and_the_batch_do_not_count() -> None:
    saved, weight = Saved(), torch.ones(4, 4, requires_grad=True)
    x = torch.ones(2, 4, requires_grad=True)
    saved.reset((x,))
    with watching(saved):
        saved.enter("0", 0, weight)
        F.linear(x, weight)
    assert saved.kept == {}


def test_output_scores_are_kept_apart() -> None:
    saved, scores = Saved(), torch.ones(3, 7, requires_grad=True)
    saved.reset(())
    with watching(saved):
        saved.enter("head", 21, torch.empty(0))
        F.log_softmax(scores * 2, dim=1)
    assert saved.logits == {"head": 84}


def test_a_new_micro_batch_begins_with_nothing_saved() -> None:
    saved = Saved()
    saved.kept["0"] = 1
    saved.logits["0"] = 1
    saved.seen.add(1)
    saved.reset(())
    assert (saved.kept, saved.logits, saved.seen) == ({}, {}, set())


def test_gradients_are_the_same_while_watched() -> None:
    saved = Saved()
    saved.reset(())
    found = []
    for context in (watching(saved), torch.enable_grad()):
        x = torch.tensor([1.0, 2.0], requires_grad=True)
        with context:
            loss = (torch.tanh(x) * x.exp()).sum()
        torch.autograd.backward(loss)
        assert x.grad is not None
        found.append(x.grad.tolist())
    assert found[0] == found[1]
