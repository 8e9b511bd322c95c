"""The loss: cross-entropy over the logits, as ops of its own after the last forward."""

from __future__ import annotations

from zerosim.kinds import Kind
from zerosim.numerics import Numerics
from zerosim.plan import PlanWriter
from zerosim.schedules.norm import FLOAT32, cast_bytes
from zerosim.workload import Layer, Work


def loss(writer: PlanWriter, layer: Layer, numerics: Numerics) -> None:
    """Cross-entropy of a layer's logits, if it ends in one.

    Eager, as F.cross_entropy under autocast: logits to float32, log_softmax (read, written), nll_loss,
    which reads a number a token. Fused: one kernel that reads the logits.
    """
    if layer.loss is None:
        return
    if layer.loss == "fused":
        _write(writer, "loss", layer, numerics.param_bytes, 1)
        return
    cast = cast_bytes(1, numerics.param_bytes)
    _write(writer, "loss", layer, cast + 2 * FLOAT32, 2 + bool(cast))


def loss_gradient(writer: PlanWriter, layer: Layer, numerics: Numerics) -> None:
    """The gradient of the logits.

    Eager: one of float32 is cleared, a number a token is set; log_softmax's backward reads that and its
    output and writes; then a cast back. Fused: one kernel that reads the logits and writes over them.
    """
    if layer.loss is None:
        return
    if layer.loss == "fused":
        _write(writer, "dloss", layer, 2 * numerics.param_bytes, 1)
        return
    cast = cast_bytes(1, numerics.param_bytes)
    _write(writer, "dloss", layer, FLOAT32 + 3 * FLOAT32 + cast, 3 + bool(cast))


def _write(writer: PlanWriter, name: str, layer: Layer, bytes_a_logit: int, kernels: int) -> None:
    writer.compute(
        Kind.OTHER,
        layer.name,
        name=name,
        memory_bytes=layer.logits * bytes_a_logit,
        work=Work(kernels=kernels),
    )
