"""The uniform model: equal layers, each a square Linear; small enough to follow by hand."""

from __future__ import annotations

from zerosim.workload import Layer, Parameter, Unit, Work, Workload


def uniform(
    *,
    layers: int,
    hidden: int,
    tokens: int,
    micro_batches: int = 1,
    checkpointing: str = "none",
    bias: bool = True,
) -> Workload:
    """`layers` layers of hidden² parameters, and hidden with `bias`; a forward is 2·hidden²·tokens FLOPs.

    A layer keeps its input for the backward (tokens · hidden elements), which takes twice the FLOPs;
    full checkpointing can drop no more, but computes the layer again. The backward is two matrix
    products, and a sum for the bias.
    """
    weight = Parameter("weight", (hidden, hidden))
    parameters = (weight, Parameter("bias", (hidden,))) if bias else (weight,)
    flops = 2 * hidden * hidden * tokens
    return Workload(
        name="uniform",
        units=tuple(Unit(str(i), parameters) for i in range(layers)),
        layers=tuple(
            Layer(
                str(i),
                i,
                flops,
                2 * flops,
                activations=tokens * hidden,
                recompute_flops=flops if checkpointing == "full" else 0,
                backward_work=Work(kernels=3 if bias else 2),
            )
            for i in range(layers)
        ),
        tokens=tokens,
        micro_batches=micro_batches,
    )
