"""The lab without namespaces: ranks of this machine on paced links, which need no right of root.

# Note [What paced links leave out]
A paced collective really runs, over the loopback, and then waits until the bytes that leave a node would
have passed an uplink (zerosim_runtime.pace). So there are no packets: nothing to count, no rate inside a
node, and nothing to drop. Times are those of the slower of the two, link or loopback.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from zerosim.errors import InputError
from zerosim.scenario import Scenario, plan_of
from zerosim.scenario.sections import ClusterSection
from zerosim.trace import Trace
from zerosim_runtime.lab.shape import Shape, patience_s, payload_share
from zerosim_runtime.launch import Progress, trace


def run_paced(
    scenario: Scenario,
    shape: Shape,
    *,
    steps: int = 4,
    out: Path | None = None,
    progress: Progress | None = None,
    timeout_s: float | None = None,
    scatter: str = "native",
) -> Trace:
    """Run a scenario on ranks whose links are paced as those of a lab of this shape would be.

    Raises InputError for a shape that paced links cannot have; else as `trace`.
    """
    if shape.intra is not None:
        raise InputError(
            "--intra needs network namespaces, and links are only paced here: leave it out"
        )
    cluster = ClusterSection(
        name="lab", world_size=shape.world_size, ranks_per_node=shape.ranks_per_node
    )
    return trace(
        replace(scenario, cluster=cluster),
        nproc=shape.world_size,
        steps=steps,
        backend=backend_of(shape),
        scatter=scatter,
        out=out,
        progress=progress,
        timeout_s=timeout_s or patience_s(plan_of(scenario), shape),
    )


def backend_of(shape: Shape) -> str:
    """The paced backend of a lab's uplink, as `zerosim trace --backend` takes it."""
    mbit = shape.inter * payload_share(shape.mtu) * 8 / 1e6
    delay = f",{shape.latency_s * 1e6:.3f}us" if shape.latency_s else ""
    return f"paced:{mbit:.6f}Mbit{delay}"
