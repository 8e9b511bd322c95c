"""From options to a stage: which classes carry it out, and the buckets they use."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from zerosim.partition import greedy
from zerosim_runtime.memory import Memory
from zerosim_runtime.zero.buckets import Dynamic, Order, Static, Weight, cut
from zerosim_runtime.zero.channels import Channels
from zerosim_runtime.zero.even import Even
from zerosim_runtime.zero.options import STAGES, Options
from zerosim_runtime.zero.replicated import Replicated
from zerosim_runtime.zero.rows import piece_of
from zerosim_runtime.zero.sharded import Sharded
from zerosim_runtime.zero.split import Split
from zerosim_runtime.zero.stage import Stage
from zerosim_runtime.zero.units import unit_of
from zerosim_runtime.zero.whole import Whole


def make_stage(
    module: nn.Module,
    options: Options,
    units: Sequence[str],
    channels: Channels,
    memory: Memory,
) -> Stage:
    """Shard a module as the options ask."""
    if options.stage == STAGES[-1]:
        return Sharded(module, options, units, channels, memory)
    return _replicated(module, options, units, channels, memory)


def _replicated(
    module: nn.Module,
    options: Options,
    units: Sequence[str],
    channels: Channels,
    memory: Memory,
) -> Replicated:
    parameters = {name: p for name, p in module.named_parameters() if p.requires_grad}
    for parameter in parameters.values():
        parameter.grad = None
        parameter.data = parameter.data.contiguous()
    memory.book("parameters", "parameters", sum(p.nbytes for p in module.parameters()))
    split = _split(parameters, options, units, channels, memory)
    gradients = {n: Weight(p.nbytes, split.lane(n)) for n, p in parameters.items()}
    order: Order = Dynamic(gradients, options.bucket_bytes)
    if options.bucket_order == "static":
        order = Static(cut(reversed(parameters), gradients, options.bucket_bytes))
    return Replicated(
        module,
        parameters,
        split,
        order,
        cut(parameters, gradients, options.bucket_bytes),
        channels,
        memory,
        keep_gradients=options.stage == STAGES[0],
        in_flight=options.in_flight,
    )


def _split(
    parameters: dict[str, nn.Parameter],
    options: Options,
    units: Sequence[str],
    channels: Channels,
    memory: Memory,
) -> Split:
    named = {name: unit_of(name, units) for name in parameters}
    if options.partition == "whole":
        owners = greedy([p.numel() for p in parameters.values()], channels.n_ranks)
        return Whole(
            owners=dict(zip(parameters, owners, strict=True)),
            parameters=parameters,
            units=named,
            channels=channels,
            memory=memory,
            to_owner=options.stage == STAGES[1],
        )
    return Even(
        pieces={n: piece_of(n, p, channels.n_ranks) for n, p in parameters.items()},
        dtypes={n: p.dtype for n, p in parameters.items()},
        units=named,
        channels=channels,
        memory=memory,
        scatter=options.stage == STAGES[1],
    )
