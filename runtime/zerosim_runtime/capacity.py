"""Whether this machine has what real ranks need: torch, and the memory of a plan."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from zerosim.errors import RuntimeFailedError, ScenarioError
from zerosim.plan import Plan
from zerosim.units import format_bytes


def check_torch() -> None:
    """Refuse a machine without torch, which is not loaded for that. Raises RuntimeFailedError."""
    if importlib.util.find_spec("torch") is None:
        raise RuntimeFailedError("torch is not installed: pip install torch==2.13.0")


def peak_bytes(plan: Plan) -> int:
    """The most memory one rank holds, by the plan's own allocations in host order."""
    held = peak = sum(allocation.nbytes for allocation in plan.persistent)
    live: dict[str, int] = {}
    for op in plan.ops:
        live.update({allocation.key: allocation.nbytes for allocation in op.allocates})
        held += sum(allocation.nbytes for allocation in op.allocates)
        peak = max(peak, held)
        held -= sum(live.pop(key) for key in op.frees)
    return peak


def available_bytes() -> int | None:
    """Memory that this machine can give, None if it does not say."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    found = [line.split()[1] for line in lines if line.startswith("MemAvailable:")]
    return int(found[0]) * 1024 if found else None


def check_memory(plan: Plan, available: int | None, n_ranks: int | None = None) -> None:
    """Refuse a plan if those `n_ranks` that are here (None: all) would not fit. Raises ScenarioError."""
    n_ranks = plan.world_size if n_ranks is None else n_ranks
    needed = n_ranks * peak_bytes(plan)
    if available is not None and needed > available:
        raise ScenarioError(
            f"{n_ranks} ranks of this scenario need {format_bytes(needed)}, this machine has "
            f"{format_bytes(available)} free: lower layers, hidden or micro_batch"
        )
