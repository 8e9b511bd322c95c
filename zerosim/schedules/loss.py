"""The loss: cross-entropy over the logits, as ops of its own after the last forward.

# Note [Memory of a loss]
F.cross_entropy takes the logits in float32, whatever they are: a copy, of which log_softmax makes its
own; that one stays for the backward. There nll_loss makes a gradient of it and log_softmax one of the
copy, which is cast back. So 4 bytes a logit stay, 8 are there in the loss and 12 in its gradient, beside
the logits, which the caller holds until the last layer's backward. Of a model that gives float32 itself
(upcast) the caller holds these. A fused loss makes the gradient alone, from the logits. For a ledger
(kept) nothing is cast, as real ranks do not, and what passes is left out.
"""

from __future__ import annotations

from typing import Final

from zerosim.kinds import Kind
from zerosim.numerics import Numerics
from zerosim.plan import Allocation, PlanWriter
from zerosim.schedules.norm import FLOAT32, cast_bytes
from zerosim.workload import Layer, Work

_WORKSPACE: Final = "workspace.loss"


def loss(writer: PlanWriter, layer: Layer, numerics: Numerics) -> None:
    """Cross-entropy of a layer's logits, if it ends in one.

    Eager, as F.cross_entropy under autocast: logits to float32, log_softmax (read, written), nll_loss,
    which reads a number a token. Fused: one kernel that reads the logits. See Note [Memory of a loss].
    """
    if layer.loss is None:
        return
    if layer.loss == "fused":
        _write(writer, "loss", layer, numerics.param_bytes, 1)
        return
    if layer.loss == "kept":
        width = numerics.param_bytes
        # Beside the log_softmax, nll_loss keeps the number of tokens it has averaged.
        one = Allocation(_log_softmax(layer), "logits", (layer.logits + 1) * width)
        # Real ranks let go of the scores with the forward.
        held = (_logits(layer),)
        _write(writer, "loss", layer, 2 * width, 2, allocates=(one,), frees=held)
        return
    cast = cast_bytes(1, numerics.param_bytes)
    made = [Allocation(_log_softmax(layer), "logits", layer.logits * FLOAT32)]
    dropped: tuple[str, ...] = ()
    if layer.loss == "upcast":
        made.append(Allocation(_upcast(layer), "logits", layer.logits * FLOAT32))
        dropped = (_logits(layer),)
    elif cast:
        made.append(Allocation(_WORKSPACE, "workspace", layer.logits * FLOAT32))
        dropped = (_WORKSPACE,)
    _write(
        writer,
        "loss",
        layer,
        cast + 2 * FLOAT32,
        2 + bool(cast),
        allocates=tuple(made),
        frees=dropped,
    )


def loss_gradient(writer: PlanWriter, layer: Layer, numerics: Numerics) -> None:
    """The gradient of the logits.

    Eager: one of float32 is cleared, a number a token is set; log_softmax's backward reads that and its
    output and writes; then a cast back. Fused: one kernel that reads the logits and writes.
    """
    if layer.loss is None:
        return
    width = numerics.param_bytes
    made = Allocation(_gradient(layer), "logits", layer.logits * width)
    if layer.loss == "fused":
        _write(writer, "dloss", layer, 2 * width, 1, allocates=(made,))
        return
    if layer.loss == "kept":
        spent = (_log_softmax(layer),)
        _write(writer, "dloss", layer, 4 * width, 3, allocates=(made,), frees=spent)
        return
    cast = cast_bytes(1, width)
    # Cast, the gradient of the log_softmax is gone before the last one is there.
    both = Allocation(_WORKSPACE, "workspace", layer.logits * max(0, 2 * FLOAT32 - width))
    _write(
        writer,
        "dloss",
        layer,
        FLOAT32 + 3 * FLOAT32 + cast,
        3 + bool(cast),
        allocates=(made, both),
        frees=(_log_softmax(layer), both.key),
    )


def kept_logits(layer: Layer) -> tuple[str, ...]:
    """Keys that the backward of a layer drops: of its logits, and of their gradient."""
    if not layer.logits:
        return ()
    if layer.loss == "kept":
        return (_gradient(layer),)
    held = _upcast(layer) if layer.loss == "upcast" else _logits(layer)
    return (held,) if layer.loss is None else (held, _gradient(layer))


def _logits(layer: Layer) -> str:
    return f"logits.{layer.name}"


def _upcast(layer: Layer) -> str:
    return f"upcast.{layer.name}"


def _log_softmax(layer: Layer) -> str:
    return f"log_softmax.{layer.name}"


def _gradient(layer: Layer) -> str:
    return f"dlogits.{layer.name}"


def _write(
    writer: PlanWriter,
    name: str,
    layer: Layer,
    bytes_a_logit: int,
    kernels: int,
    *,
    allocates: tuple[Allocation, ...] = (),
    frees: tuple[str, ...] = (),
) -> None:
    writer.compute(
        Kind.OTHER,
        layer.name,
        name=name,
        memory_bytes=layer.logits * bytes_a_logit,
        work=Work(kernels=kernels),
        allocates=allocates,
        frees=frees,
    )
