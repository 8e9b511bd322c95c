"""Runs a plan for real: autograd calls, a cursor walks the plan, and both must agree on what is next.

# Note [The cursor]
The model's forward and autograd's backward decide the order in which layers compute. Where a layer
begins, the cursor carries out all that the plan lists before it (gathers, fills, reductions); if the
plan's next computation is another one, the run stops and names both. Between two layers stands an
identity whose backward runs when the later layer's gradients are complete: autograd runs ready nodes
latest first, so all nodes of a layer, and the accumulation of its parameters' gradients, come before
its input's identity. A loss that the plan has as ops of its own stands behind such an identity, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import torch

from zerosim.errors import RuntimeFailedError
from zerosim.kinds import PREFIX, Kind
from zerosim.plan import Op, Plan
from zerosim.workload import Workload
from zerosim_runtime.actions import add_gradient, carry_out, make_gradients
from zerosim_runtime.memory import Memory
from zerosim_runtime.model import Batch, Model
from zerosim_runtime.progress import Rank, settle
from zerosim_runtime.recorder import Row
from zerosim_runtime.saved import Saved, watching

_LOSS: Final = "loss"


@dataclass(slots=True)
class Execution:
    """A rank on its way through a plan: `position` is the next op, `running` the one computing.

    `arrived` are the parameters (unit, index) whose gradients of this micro-batch are complete.
    """

    plan: Plan
    workload: Workload
    rank: Rank
    saved: Saved = field(default_factory=Saved)
    position: int = 0
    running: tuple[Op, Row] | None = None
    arrived: set[tuple[int, int]] = field(default_factory=set)


def attach(execution: Execution, model: Model) -> None:
    """Hang the cursor into a model: around each layer, and where gradients arrive."""

    def before(index: int, inputs: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        _begin(execution, Kind.FORWARD, index)
        return tuple(_between(x, execution, index) if x.requires_grad else x for x in inputs)

    def after(index: int, output: torch.Tensor) -> torch.Tensor | None:
        if index < len(model.layers) - 1:
            _end_forward(execution)
            return None
        if execution.workload.layers[-1].loss is None:
            execution.saved.layer = _LOSS
            return None
        execution.saved.logits[execution.workload.layers[index].name] = (
            output.untyped_storage().nbytes()
        )
        _end_forward(execution)
        _begin_loss(execution)
        return _before_loss(output, execution)

    for i, layer in enumerate(model.layers):
        layer.register_forward_pre_hook(lambda _, inputs, index=i: before(index, inputs))
        layer.register_forward_hook(lambda _, __, output, index=i: after(index, output))
    for unit, parameters in enumerate(execution.rank.weights.parameters):
        for index, parameter in enumerate(parameters):
            hooked: Any = parameter  # torch's method has no types
            hooked.register_post_accumulate_grad_hook(
                lambda p, key=(unit, index): _arrive(execution, key, p)
            )


def train_step(
    execution: Execution, model: Model, batches: Sequence[Batch], step: int
) -> torch.Tensor:
    """One step over its micro-batches; returns the mean loss. Raises RuntimeFailedError."""
    losses: list[torch.Tensor] = []
    for batch in batches:
        execution.saved.reset((batch.inputs, batch.targets))
        with watching(execution.saved):
            loss = model(batch)
        if execution.workload.layers[-1].loss is None:
            _end_forward(execution)
            _begin(execution, Kind.BACKWARD, len(model.layers) - 1)
        else:
            kept = execution.saved.kept.get(_LOSS, 0)
            _end_loss(execution, execution.saved.logits.get(_LOSS, 0) + kept)
            _begin_loss(execution)
        torch.autograd.backward(loss / len(batches))
        _end_backward(execution)
        losses.append(loss.detach())
    _finish_step(execution, step)
    return torch.stack(losses).mean()


class _Between(torch.autograd.Function):
    """The identity between two layers; see Note [The cursor]."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, execution: Execution, index: int) -> torch.Tensor:  # noqa: ANN401 - torch's context
        ctx.execution, ctx.index = execution, index
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None, None]:  # noqa: ANN401 - same
        _end_backward(ctx.execution)
        _begin(ctx.execution, Kind.BACKWARD, ctx.index - 1)
        return gradients[0], None, None


def _between(x: torch.Tensor, execution: Execution, index: int) -> torch.Tensor:
    apply: Callable[..., torch.Tensor] = _Between.apply
    return apply(x, execution, index)


class _BeforeLoss(torch.autograd.Function):
    """The identity between the last layer and a loss of its own; see Note [The cursor]."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, execution: Execution) -> torch.Tensor:  # noqa: ANN401 - torch's context
        ctx.execution = execution
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:  # noqa: ANN401 - same
        execution: Execution = ctx.execution
        _end_loss(execution, gradients[0].untyped_storage().nbytes())
        _begin(execution, Kind.BACKWARD, len(execution.workload.layers) - 1)
        return gradients[0], None


def _before_loss(x: torch.Tensor, execution: Execution) -> torch.Tensor:
    apply: Callable[..., torch.Tensor] = _BeforeLoss.apply
    return apply(x, execution)


def _begin_loss(execution: Execution) -> None:
    """The loss, or its gradient, is about to be computed."""
    op = _walk(execution)
    if op is None or op.kind is not Kind.OTHER:
        planned = "nothing more" if op is None else f"'{op.name}'"
        raise RuntimeFailedError(
            f"the model computes its loss where the plan has {planned}: give the plan of this model"
        )
    row = execution.rank.recorder.begin(op.id)
    settle(execution.rank, op.after)
    execution.saved.layer = _LOSS
    execution.position += 1
    row.start = execution.rank.recorder.moment()
    execution.running = (op, row)


def _end_loss(execution: Execution, made: int) -> None:
    """The loss is there, or its gradient: book the `made` bytes that stay."""
    op, memory = _stop(execution), execution.rank.memory
    for allocation in op.allocates:
        memory.book(allocation.key, allocation.kind, made)
    _release(memory, op)


def _begin(execution: Execution, kind: Kind, index: int) -> None:
    """A layer is about to compute: carry out what the plan lists before it, and what it waits for."""
    rank, layer = execution.rank, execution.workload.layers[index]
    op = _walk(execution)
    wanted = PREFIX[kind] + layer.name
    if op is None or op.kind is not kind or op.name != wanted:
        planned = "nothing more" if op is None else f"'{op.name}'"
        raise RuntimeFailedError(
            f"the model computes '{wanted}' where the plan has {planned}: give the plan of this model"
        )
    row = rank.recorder.begin(op.id)
    settle(rank, op.after)
    if kind is Kind.FORWARD:
        execution.saved.enter(layer.name, layer.logits, rank.weights.whole[layer.unit])
    make_gradients(rank, op)
    execution.position += 1
    row.start = rank.recorder.moment()
    execution.running = (op, row)


def _walk(execution: Execution) -> Op | None:
    """Carry out ops up to the next computation of the model; returns that, None at the end."""
    ops = execution.plan.ops
    while execution.position < len(ops):
        op = ops[execution.position]
        if op.kind in (Kind.FORWARD, Kind.BACKWARD, Kind.OTHER, Kind.OPTIMIZER):
            return op
        execution.position += 1
        carry_out(execution.rank, op)
    return None


def _finish_step(execution: Execution, step: int) -> None:
    """Carry out the rest of a step: the last reductions, the update, the gathers after it."""
    ops = execution.plan.ops
    while execution.position < len(ops) and ops[execution.position].step == step:
        op = ops[execution.position]
        if op.kind in (Kind.FORWARD, Kind.BACKWARD):
            raise RuntimeFailedError(
                f"the model has ended step {step} where the plan has '{op.name}': "
                "give the plan of this model"
            )
        execution.position += 1
        carry_out(execution.rank, op)
        if op.blocks:
            # The host waits for the last op of a step; see zerosim.schedules.layers.
            settle(execution.rank, (op.id,))


def _stop(execution: Execution) -> Op:
    """The running op has ended."""
    if execution.running is None:
        raise RuntimeFailedError("a layer ended that never began: call the layers in their order")
    op, row = execution.running
    row.end = execution.rank.recorder.moment()
    execution.running = None
    return op


def _end_forward(execution: Execution) -> None:
    """A layer's output is there (the last layer's with the loss): book what autograd keeps for it."""
    op, saved, memory = _stop(execution), execution.saved, execution.rank.memory
    layer = op.name.removeprefix(PREFIX[op.kind])
    for allocation in op.allocates:
        nbytes = saved.kept.get(layer, 0) + saved.kept.get(_LOSS, 0)
        if allocation.kind == "logits":
            nbytes = saved.logits.get(layer, 0)
        memory.book(allocation.key, allocation.kind, nbytes)
    _release(memory, op)


def _end_backward(execution: Execution) -> None:
    """All gradients of a layer are there; check those of its unit if this layer completes them."""
    op, rank = _stop(execution), execution.rank
    layer = next(la for la in execution.workload.layers if PREFIX[op.kind] + la.name == op.name)
    if execution.workload.layers[execution.workload.uses()[layer.unit][0]] is layer:
        for index, parameter in enumerate(rank.weights.parameters[layer.unit]):
            key = (layer.unit, index)
            _arrive(execution, key, parameter)
            if key not in execution.arrived:
                raise RuntimeFailedError(
                    f"'{op.name}' gave parameter {index} of unit '{rank.layout.units[layer.unit]}' "
                    "no gradient: every parameter must be used"
                )
            execution.arrived.remove(key)
    _release(rank.memory, op)


def _arrive(execution: Execution, key: tuple[int, int], parameter: torch.Tensor) -> None:
    """Move a complete gradient to its place; if the plan has none yet, it stays with its parameter."""
    target = execution.rank.gradients.get(key)
    if target is not None and parameter.grad is not None:
        add_gradient(target, parameter)
        execution.arrived.add(key)


def _release(memory: Memory, op: Op) -> None:
    for key in op.frees:
        if memory.booked[key][0] == "gathered":
            memory.empty(key)
        else:
            memory.drop(key)
