"""The answer of `zerosim memory SCENARIO`: states, the peak of the plan by kind, what fits."""

from __future__ import annotations

from typing import Any, Final

from zerosim.cli.output import print_rows
from zerosim.cli.states import stage_records
from zerosim.engine import ALLOCATORS
from zerosim.memory.footprint import Footprint, footprints, heaviest
from zerosim.memory.reserved import Reserved, reserved
from zerosim.plan import Plan
from zerosim.scenario import Scenario, cluster_of, convention_of, moments_of, plan_of, workload_of
from zerosim.scenario.fit import Largest, largest, steady
from zerosim.units import format_bytes, format_count

MAX_RANK_ROWS: Final = 8
"""So many lines of ranks that differ are printed; JSON has them all."""


def holding_record(scenario: Scenario, *, batch: bool) -> dict[str, Any]:
    """What `--json` prints; figures are those of the ranks that hold most, a steady step included."""
    (scenario, plan), device = steady(scenario), cluster_of(scenario).device
    workload, convention = workload_of(scenario), convention_of(scenario)
    every = footprints(plan)
    most = max(every, key=lambda f: f.peak_bytes)
    limit = int(device.memory_bytes)
    cached = _cached(scenario, plan, most.first, limit)
    caching = ALLOCATORS[scenario.run.allocator or "none"]

    def peak(other: Scenario) -> int:
        plan = plan_of(other)
        heavy = heaviest(plan)
        if not caching or heavy.peak_bytes > limit:
            return heavy.peak_bytes
        return _cached(other, plan, heavy.first, limit).peak_bytes

    given = scenario.workload.record is not None  # an extracted model has the layers it has
    layers = None if given else largest(scenario, "layers", limit, peak)
    micro_batch = largest(scenario, "micro_batch", limit, peak) if batch else None
    return {
        "convention": convention.name,
        "states_bytes": most.states_bytes,
        "peak_bytes": most.peak_bytes,
        "by_kind": most.by_kind,
        "fits": (cached.peak_bytes if caching else most.peak_bytes) <= limit,
        "largest_model_params": _params(layers),
        "peak_reserved_bytes": cached.peak_bytes,
        "reserving_retries": cached.n_retries,
        "fits_by": "reserved" if caching else "allocated",
        "name": scenario.name,
        "schedule": scenario.schedule.name,
        "n_params": workload.n_params,
        "n_ranks": plan.world_size,
        "memory_bytes": limit,
        "device": device.name,
        "convention_line": convention.line,
        "states_by_kind": most.states,
        "peak_at": {"op": most.op, "step": most.step},
        "largest_model": _found(layers),
        "largest_micro_batch": _found(micro_batch),
        "stages": stage_records(workload.n_params, plan.world_size, convention, limit),
        "ranks": [_ranks(footprint) for footprint in every],
        "checkpointing": scenario.workload.checkpointing,
    }


def _cached(scenario: Scenario, plan: Plan, rank: int, limit_bytes: int) -> Reserved:
    return reserved(plan, rank, moments=moments_of(scenario, plan, rank), limit_bytes=limit_bytes)


def _params(most: Largest | None) -> int | None:
    if most is None or not most.scales:
        return None
    return 0 if most.scenario is None else workload_of(most.scenario).n_params


def _found(most: Largest | None) -> dict[str, Any] | None:
    if most is None or not most.scales:
        return None
    return {"value": most.value, "bounded": most.bounded}


def _ranks(footprint: Footprint) -> dict[str, Any]:
    return {
        "first": footprint.first,
        "last": footprint.last,
        "peak_bytes": footprint.peak_bytes,
        "by_kind": footprint.by_kind,
        "states_bytes": footprint.states,
    }


def print_holding(record: dict[str, Any]) -> None:
    """The same as text."""
    ranks = f"{record['schedule']} on {record['n_ranks']:,} ranks"
    print_rows(
        [
            (
                "model",
                f"{format_count(record['n_params'])} parameters ({record['name']}, {ranks})",
            ),
            ("convention", record["convention_line"]),
            ("states", _kinds(record["states_bytes"], record["states_by_kind"])),
            ("closed form", _stages(record["stages"])),
            ("peak", _peak_line(record)),
            ("reserved", _reserved(record)),
            *_differing(record["ranks"]),
            ("fits", _fits(record)),
            *_remedy(record),
            ("largest model", _largest_model(record)),
            *_largest_batch(record["largest_micro_batch"]),
        ]
    )


def _kinds(total: int, by_kind: dict[str, int]) -> str:
    parts = [f"{kind} {format_bytes(n)}" for kind, n in by_kind.items() if n]
    return f"{format_bytes(total)} a rank: {', '.join(parts)}"


def _stages(rows: list[dict[str, Any]]) -> str:
    held = [f"ZeRO-{row['stage']} {format_bytes(row['states_bytes'])}" for row in rows]
    return f"{', '.join(held)} without padding (ZeRO-0: replicas)"


def _peak_line(record: dict[str, Any]) -> str:
    at = record["peak_at"]
    where = "" if at["op"] is None else f", at {at['op']} of step {at['step']}"
    return _kinds(record["peak_bytes"], record["by_kind"]) + where


def _reserved(record: dict[str, Any]) -> str:
    most = format_bytes(record["peak_reserved_bytes"])
    again = record["reserving_retries"]
    retries = f", free segments given back {again:,} times" if again else ""
    return f"{most} by a caching allocator{retries}"


def _differing(rows: list[dict[str, Any]]) -> list[tuple[str, str]]:
    if len(rows) == 1:
        return []
    heavy = sorted(rows, key=lambda row: -row["peak_bytes"])
    held: dict[str, list[dict[str, Any]]] = {}
    for row in heavy:  # ranks whose figures read the same share a line
        held.setdefault(_kinds(row["peak_bytes"], row["by_kind"]), []).append(row)
    if len(held) == 1:
        return []
    lines = [(_members(alike), text) for text, alike in held.items()][:MAX_RANK_ROWS]
    left = len(held) - len(lines)
    return [*lines, ("", f"and {left} more")] if left else lines


def _members(rows: list[dict[str, Any]]) -> str:
    """`rank 3`, `ranks 0-2` or `14 ranks`, where they are no single run."""
    n = sum(row["last"] - row["first"] + 1 for row in rows)
    first, last = min(row["first"] for row in rows), max(row["last"] for row in rows)
    if n == 1:
        return f"rank {first}"
    return f"ranks {first}-{last}" if n == last - first + 1 else f"{n:,} ranks"


def _fits(record: dict[str, Any]) -> str:
    by = record["fits_by"]
    held = record["peak_bytes" if by == "allocated" else "peak_reserved_bytes"]
    share = f"{held / record['memory_bytes']:.1%} of {format_bytes(record['memory_bytes'])}"
    return f"{'yes' if record['fits'] else 'no'}: {share} ({record['device']}), {by}"


def _remedy(record: dict[str, Any]) -> list[tuple[str, str]]:
    """What makes most of a peak that does not fit smaller."""
    if record["fits"]:
        return []
    kind = max(record["by_kind"], key=lambda name: record["by_kind"][name])
    states = "optimizer states" if kind == "optimizer" else kind
    share = f"{states} are {record['by_kind'][kind] / record['peak_bytes']:.0%} of it"
    if kind in ("activations", "logits"):
        full = kind == "logits" or record["checkpointing"] == "full"
        what = "" if full else "--set checkpointing=full, or "
        return [("most", f"{share}: {what}a smaller micro_batch or seq")]
    if kind in ("parameters", "gradients", "optimizer"):
        return [("most", f"{share}: more ranks, or a schedule that splits them")]
    return [("most", f"{share}: see the schedule's knobs")]


def _largest_model(record: dict[str, Any]) -> str:
    found = record["largest_model"]
    if found is None:
        return "unknown: this model has the layers it has"
    if not found["value"]:
        return "none: a single layer does not fit"
    more = "at least " if found["bounded"] else ""
    return f"{more}{format_count(record['largest_model_params'])} ({found['value']:,} layers)"


def _largest_batch(found: dict[str, Any] | None) -> list[tuple[str, str]]:
    if found is None:
        return []
    if not found["value"]:
        return [("largest micro-batch", "none: a batch of 1 does not fit")]
    more = "at least " if found["bounded"] else ""
    return [("largest micro-batch", f"{more}{found['value']:,}")]
