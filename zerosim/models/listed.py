"""A model given as a list of parameter sizes: for any layer shapes, and for questions of who owns what."""

from __future__ import annotations

from zerosim.errors import ScenarioError
from zerosim.workload import Layer, Parameter, Unit, Work, Workload


def listed(
    sizes: str, *, tokens: int, micro_batches: int = 1, checkpointing: str = "none"
) -> Workload:
    """Layers from text: `linear1: 256x128, 256; linear2: 512x256, 512`.

    Layers are separated by `;` and may bear a name before `:`; their parameters, by `,`, are sizes
    or shapes. A forward is 2 FLOPs an element and token; a layer keeps `tokens` times the last
    dimension of its first parameter for the backward, which takes twice the FLOPs. Each matrix is one
    matrix product forward and two backward, each vector a sum backward.
    Raises ScenarioError for text that does not read so.
    """
    units = tuple(
        _unit(text, place)
        for place, text in enumerate(filter(None, map(str.strip, sizes.split(";"))))
    )
    if len({unit.name for unit in units}) < len(units):
        raise ScenarioError(f"workload.sizes is '{sizes}': give every layer a name of its own")
    return Workload(
        name="parameters",
        units=units,
        layers=tuple(_layer(unit, i, tokens, checkpointing) for i, unit in enumerate(units)),
        tokens=tokens,
        micro_batches=micro_batches,
    )


def _layer(unit: Unit, i: int, tokens: int, checkpointing: str) -> Layer:
    flops = 2 * unit.numel * tokens
    matrices = sum(len(p.shape) > 1 for p in unit.parameters) or 1
    return Layer(
        unit.name,
        i,
        flops,
        2 * flops,
        activations=tokens * unit.parameters[0].shape[-1],
        recompute_flops=flops if checkpointing == "full" else 0,
        forward_work=Work(kernels=matrices),
        recompute_work=Work(kernels=matrices),
        backward_work=Work(kernels=matrices + len(unit.parameters)),
    )


def _unit(text: str, place: int) -> Unit:
    name, _, shapes = text.rpartition(":")
    parts = shapes.split(",")
    return Unit(
        name.strip() or str(place),
        tuple(Parameter(str(i), _shape(part)) for i, part in enumerate(parts)),
    )


def _shape(text: str) -> tuple[int, ...]:
    try:
        shape = tuple(int(part) for part in text.strip().split("x"))
    except ValueError:
        shape = ()
    if not shape or min(shape) < 1:
        raise ScenarioError(
            f"workload.sizes has '{text.strip()}': write a size or a shape, like 256 or 256x128"
        )
    return shape
