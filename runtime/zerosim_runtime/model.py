"""Real torch models of a workload: layers that compute with exactly the parameters of their units."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812 - torch's own custom

from zerosim.errors import RuntimeFailedError
from zerosim.scenario.sections import WorkloadSection
from zerosim.workload import Layer as PlannedLayer
from zerosim.workload import Parameter, Workload

Compute = Callable[[torch.Tensor], torch.Tensor]
Around = Callable[[Compute, torch.Tensor], torch.Tensor]
"""Calls a layer's own computation with its input; may do something before and after."""
_ROTARY_BASE: Final = 10_000.0


@dataclass(frozen=True, slots=True)
class Batch:
    """One micro-batch of one rank: uniform `[tokens, hidden]` twice, else token ids `[batch, seq]`."""

    inputs: torch.Tensor
    targets: torch.Tensor


def plainly(compute: Compute, x: torch.Tensor) -> torch.Tensor:
    """Just compute."""
    return compute(x)


class Layer(nn.Module):
    """One layer of the workload; layers of one unit share its parameters."""

    def __init__(
        self,
        kind: str,
        names: Sequence[str],
        parameters: Sequence[nn.Parameter],
        heads: tuple[int, int],
        around: Around = plainly,
    ) -> None:
        super().__init__()
        self.kind, self.heads, self.around = kind, heads, around
        for name, parameter in zip(names, parameters, strict=True):
            self.register_parameter(_attribute(name), parameter)

    def needed(self, name: str) -> torch.Tensor:
        """A parameter by its name in the unit."""
        found = self.optional(name)
        if found is None:
            raise RuntimeFailedError(f"parameter '{name}' of a {self.kind} layer is not set")
        return found

    def optional(self, name: str) -> torch.Tensor | None:
        """A parameter by its name, None where the unit has none (a bias, an untied head)."""
        # FSDP1 takes the parameter away and puts a view of its flat one there, a plain attribute.
        found: torch.Tensor | None = getattr(self, _attribute(name), None)
        return found

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The layer's output, in the shape of its input (token ids become `[batch, seq, hidden]`)."""
        return self.around(partial(_FORWARD[self.kind], self), x)


class Model(nn.Module):
    """The layers in order, then the loss (mean squared error, or cross entropy of token ids)."""

    def __init__(self, layers: Sequence[Layer]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, batch: Batch) -> torch.Tensor:
        """The mean loss of a micro-batch."""
        x = batch.inputs
        for layer in self.layers:
            x = layer(x)
        if batch.targets.is_floating_point():
            return F.mse_loss(x, batch.targets)
        return F.cross_entropy(x.flatten(0, 1), batch.targets.flatten())


def model_of(
    workload: Workload,
    section: WorkloadSection,
    parameters: Sequence[Sequence[nn.Parameter]],
    around: Callable[[PlannedLayer], Around] = lambda _: plainly,
) -> Model:
    """The real model of a scenario's workload; `parameters[unit][index]` are what it computes with.

    A layer has the parameters of its modules. `around` says what is done around its computation.
    """
    heads = (section.heads, section.kv_heads or section.heads)
    layers = []
    for layer in workload.layers:
        of_unit = workload.units[layer.unit].parameters
        used = [i for m in layer.modules for i in m.parameters] or list(range(len(of_unit)))
        names = [of_unit[i].name for i in used]
        own = [parameters[layer.unit][i] for i in used]
        layers.append(Layer(_kind(section.model, layer.name), names, own, heads, around(layer)))
    return Model(layers)


def initial(parameter: Parameter, unit: int, index: int, seed: int) -> torch.Tensor:
    """First values of a parameter, float64 `[numel]`: the same on every rank, from the seed alone."""
    generator = torch.Generator().manual_seed(_mixed(seed, 1, unit, index))
    if len(parameter.shape) > 1:
        scale = 1 / math.sqrt(parameter.shape[-1])
        return torch.randn(parameter.numel, generator=generator, dtype=torch.float64) * scale
    if parameter.name.endswith("bias"):
        return torch.zeros(parameter.numel, dtype=torch.float64)
    return torch.ones(parameter.numel, dtype=torch.float64)


def batch_of(
    section: WorkloadSection,
    dtype: torch.dtype,
    device: torch.device,
    *,
    seed: int,
    rank: int,
    step: int,
    micro_batch: int,
) -> Batch:
    """The micro-batch a rank trains on at a step, drawn from these numbers alone."""
    generator = torch.Generator().manual_seed(_mixed(seed, 2, rank, step, micro_batch))
    if section.vocab is None or section.model == "uniform":
        shape = (2, section.micro_batch * section.seq, section.hidden)
        inputs, targets = torch.randn(shape, generator=generator, dtype=torch.float64)
        return Batch(inputs.to(device, dtype), targets.to(device, dtype))
    ids = torch.randint(
        section.vocab, (section.micro_batch, section.seq + 1), generator=generator
    ).to(device)
    return Batch(ids[:, :-1].contiguous(), ids[:, 1:].contiguous())


def _mixed(*numbers: int) -> int:
    mixed = 0
    for number in numbers:
        mixed = (mixed * 1_000_003 + number + 1) % (2**63)
    return mixed


def _attribute(name: str) -> str:
    return name.replace(".", "_")


def _kind(model: str, layer: str) -> str:
    if model == "uniform":
        return "uniform"
    return layer if layer in ("emb", "head") else model


def _uniform(layer: Layer, x: torch.Tensor) -> torch.Tensor:
    # The activation stands first, so that the layer's input is all that its backward needs.
    return F.linear(torch.tanh(x), layer.needed("weight"), layer.optional("bias"))


def _embedding(layer: Layer, ids: torch.Tensor) -> torch.Tensor:
    x = F.embedding(ids, layer.needed("embedding.weight"))
    position = layer.optional("position.weight")
    return x if position is None else x + position[: ids.shape[1]]


def _head(layer: Layer, x: torch.Tensor) -> torch.Tensor:
    table = layer.optional("head.weight")
    if table is None:
        table = layer.needed("embedding.weight")
    return F.linear(_norm(layer, "norm", x), table)


def _gpt(layer: Layer, x: torch.Tensor) -> torch.Tensor:
    x = x + _attention(layer, _norm(layer, "norm1", x), rotary=False)
    y = F.gelu(_linear(layer, "mlp.up", _norm(layer, "norm2", x)))
    return x + _linear(layer, "mlp.down", y)


def _llama(layer: Layer, x: torch.Tensor) -> torch.Tensor:
    x = x + _attention(layer, _norm(layer, "norm1", x), rotary=True)
    y = _norm(layer, "norm2", x)
    y = F.silu(_linear(layer, "mlp.gate", y)) * _linear(layer, "mlp.up", y)
    return x + _linear(layer, "mlp.down", y)


def _linear(layer: Layer, name: str, x: torch.Tensor) -> torch.Tensor:
    return F.linear(x, layer.needed(f"{name}.weight"), layer.optional(f"{name}.bias"))


def _norm(layer: Layer, name: str, x: torch.Tensor) -> torch.Tensor:
    weight, bias = layer.needed(f"{name}.weight"), layer.optional(f"{name}.bias")
    if bias is None:
        return F.rms_norm(x, (x.shape[-1],), weight)
    return F.layer_norm(x, (x.shape[-1],), weight, bias)


def _attention(layer: Layer, x: torch.Tensor, *, rotary: bool) -> torch.Tensor:
    heads, kv_heads = layer.heads
    batch, seq, hidden = x.shape
    width = hidden // heads
    packed = _linear(layer, "attention.qkv", x).view(batch, seq, heads + 2 * kv_heads, width)
    packed = packed.transpose(1, 2)
    query, key, value = packed[:, :heads], packed[:, heads:-kv_heads], packed[:, -kv_heads:]
    if rotary:
        query, key = _rotated(query), _rotated(key)
    if kv_heads != heads:
        key, value = (t.repeat_interleave(heads // kv_heads, dim=1) for t in (key, value))
    mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
    return _linear(layer, "attention.out", mixed.transpose(1, 2).reshape(batch, seq, hidden))


def _rotated(x: torch.Tensor) -> torch.Tensor:
    """Rotary position embedding of `[batch, heads, seq, width]`; an odd last channel stays."""
    seq, half = x.shape[2], x.shape[3] // 2
    rates = _ROTARY_BASE ** (
        -torch.arange(half, device=x.device, dtype=torch.float64) / max(half, 1)
    )
    angles = torch.arange(seq, device=x.device, dtype=torch.float64)[:, None] * rates
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    first, second, rest = x[..., :half], x[..., half : 2 * half], x[..., 2 * half :]
    return torch.cat((first * cos - second * sin, first * sin + second * cos, rest), dim=-1)


_FORWARD: Final = {
    "uniform": _uniform,
    "emb": _embedding,
    "head": _head,
    "gpt": _gpt,
    "llama": _llama,
}
