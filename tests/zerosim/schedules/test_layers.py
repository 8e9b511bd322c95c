"""Layers as ops: what they keep, compute again, and hold only while they run."""

from __future__ import annotations

from zerosim.kinds import Kind
from zerosim.numerics import Numerics
from zerosim.plan import PlanWriter
from zerosim.schedules import layers
from zerosim.workload import Layer

BF16 = Numerics()
LAYER = Layer(
    "0", 0, 8, 16, activations=10, logits=3, recompute_flops=8, recomputed=20,
    forward_workspace=2, recompute_workspace=3, backward_workspace=5,
)  # fmt: skip


def test_a_forward_keeps_activations_and_logits_and_drops_its_workspace() -> None:
    writer = PlanWriter()
    layers.forward(writer, LAYER, BF16)
    (op,) = writer.ops
    assert {a.key: a.nbytes for a in op.allocates} == {
        "activations.0": 20,
        "logits.0": 6,
        "workspace.0": 4,
    }
    assert op.frees == ("workspace.0",)


def test_a_backward_is_preceded_by_what_is_computed_again() -> None:
    writer = PlanWriter()
    layers.forward(writer, LAYER, BF16)
    layers.backward(writer, LAYER, BF16, after=(0,))
    _, again, backward = writer.ops
    assert (again.kind, again.name, again.after) == (Kind.RECOMPUTE, "R0", (0,))
    assert {a.key: a.nbytes for a in again.allocates} == {"recomputed.0": 40, "workspace.0": 6}
    assert {a.key: a.nbytes for a in backward.allocates} == {"workspace.0": 10}
    assert set(backward.frees) == {"activations.0", "logits.0", "recomputed.0", "workspace.0"}


def test_without_checkpointing_nothing_is_computed_again() -> None:
    writer = PlanWriter()
    assert layers.recompute(writer, Layer("1", 0, 8, 16, 10), BF16) == ()
    assert writer.ops == []


def test_what_is_gone_early_is_dropped_before_the_backward_takes_anything() -> None:
    writer = PlanWriter()
    layer = Layer("0", 0, 8, 16, activations=10, gone_early=4, backward_workspace=5)
    layers.forward(writer, layer, BF16)
    layers.backward(writer, layer, BF16)
    forward, backward = writer.ops
    assert {a.key: a.nbytes for a in forward.allocates} == {"activations.0": 12, "early.0": 8}
    assert forward.frees == ("early.0",)
    assert set(backward.frees) == {"activations.0", "workspace.0"}


def test_of_a_checkpointed_layer_the_recomputed_is_what_is_gone_early() -> None:
    writer = PlanWriter()
    layer = Layer("0", 0, 8, 16, activations=2, recompute_flops=8, recomputed=8, gone_early=4)
    layers.forward(writer, layer, BF16)
    layers.backward(writer, layer, BF16)
    forward, again, _ = writer.ops
    assert {a.key: a.nbytes for a in forward.allocates} == {"activations.0": 4}
    assert {a.key: a.nbytes for a in again.allocates} == {"recomputed.0": 8, "early.0": 8}
    assert again.frees == ("early.0",)
