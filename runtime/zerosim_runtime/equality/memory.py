"""`python -m zerosim_runtime.equality.memory`: a plan's peak memory beside torch's FSDPMemTracker."""

from __future__ import annotations

import argparse
import subprocess
import sys
import warnings
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import orjson
import torch

from zerosim.errors import RuntimeFailedError, UnknownNameError
from zerosim.kinds import Kind
from zerosim.memory import footprint
from zerosim.plan import Plan
from zerosim.registry import Registry
from zerosim.scenario import Scenario, plan_of, workload_of
from zerosim_runtime.agents import environment
from zerosim_runtime.equality.memory_cases import CASES, MODELS, REDUCED, MemoryCase
from zerosim_runtime.equality.memory_report import write_page
from zerosim_runtime.equality.tracked import Tracked, WithLoss, tracked
from zerosim_runtime.extraction.factory import Made
from zerosim_runtime.extraction.record import Asked, record_of

BAR: Final = 0.03
"""How far a peak may be off, as a share of the tracker's."""
_PAIRS: Final = Registry("pair", {case.name: case for case in (*CASES, *REDUCED)})
_COMPUTES: Final = {Kind.FORWARD: "F", Kind.RECOMPUTE: "B", Kind.BACKWARD: "B"}
"""What a block is called while it runs: it is computed again inside its backward."""


@dataclass(frozen=True, slots=True)
class Pair:
    """One comparison, optimizer states left out on both sides; bytes.

    `optimizer_bytes` is the plan's, by arithmetic: the tracker's are wrong with foreach.
    """

    case: MemoryCase
    tracked: Tracked
    planned_bytes: int
    planned_by_kind: dict[str, int]
    planned_curve: tuple[tuple[str, int], ...]
    optimizer_bytes: int


def scenario_of(case: MemoryCase) -> Scenario:
    """The same setting as a scenario, with the model extracted from its nn.Module."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        with torch.device("meta"):
            module = WithLoss(MODELS[case.model]())
    finally:
        torch.set_default_dtype(before)
    asked = Asked(case.batch, case.seq, (), torch.bfloat16, causal=False)
    return Scenario.from_dict(
        {
            "name": case.name,
            "workload": {
                "model": "extracted",
                "record": record_of(Made(module), asked),
                "micro_batch": case.batch,
                "checkpointing": case.checkpointing,
            },
            "schedule": {"name": "fsdp2"},
            "cluster": {"name": "dgx-h100", "world_size": case.world_size},
            "numerics": {
                "dtype": "bfloat16",
                "storage_dtype": "float32",
                "reduce_dtype": "float32",
                "optimizer": "adamw",
            },
        }
    )


def compared(case: MemoryCase) -> Pair:
    """Both peaks of one pair."""
    seen = tracked(case)
    scenario = scenario_of(case)
    plan = plan_of(scenario)
    most = footprint.heaviest(plan)
    by_kind = {kind: n for kind, n in most.by_kind.items() if kind != "optimizer"}
    optimizer = most.by_kind["optimizer"]
    blocks = {unit.name for unit in workload_of(scenario).units} - {"root"}
    curve = tuple((name, nbytes - optimizer) for name, nbytes in curve_of(plan, blocks))
    return Pair(case, seen, sum(by_kind.values()), by_kind, curve, optimizer)


def curve_of(plan: Plan, blocks: Collection[str]) -> list[tuple[str, int]]:
    """The most that rank 0 holds from each block's F or B to the next one's, in host order.

    What comes before the first is `start`, what lies between the last F and the first B, from the
    backward of the loss on, is `loss`: so the tracker was asked.
    """
    live = {a.key: a.at(0) for a in plan.persistent}
    now, total = "start", sum(live.values())
    most: dict[str, int] = {}
    for op in plan.ops:
        if op.kind in _COMPUTES and op.unit in blocks:
            now = f"{_COMPUTES[op.kind]}{op.unit}"
        elif op.kind is Kind.BACKWARD and "B" not in {name[0] for name in most}:
            now = "loss"
        for allocation in op.allocates:
            live[allocation.key] = allocation.at(0)
            total += live[allocation.key]
        most[now] = max(most.get(now, 0), total)
        total -= sum(live.pop(key) for key in op.frees)
    return list(most.items())


def main(words: Sequence[str]) -> int:
    """Compare; 0 if every peak is within the bar, else 1."""
    parser = argparse.ArgumentParser(prog="zerosim_runtime.equality.memory", description=__doc__)
    parser.add_argument("--reduced", action="store_true", help="only the short set of the tests")
    parser.add_argument("--report", type=Path, help="the page to write; none if left out")
    parser.add_argument("--one", help="compare one pair and print it as JSON")
    asked = parser.parse_args(words)
    warnings.simplefilter("ignore")  # torch's own, about its prototypes
    if asked.one:
        try:
            pair = compared(_PAIRS[asked.one])
        except UnknownNameError as error:
            sys.stderr.write(f"zerosim: {error}\n")
            return 2
        sys.stdout.buffer.write(orjson.dumps(asdict(pair)))
        return 0
    pairs = []
    for case in REDUCED if asked.reduced else CASES:
        pairs.append(pair_of(case))
        ratio = pairs[-1]["ratio"]
        print(f"{case.name}: planned / tracked = {ratio:.4f}", flush=True)  # noqa: T201 - its answer
    if asked.report is not None:
        write_page(asked.report, pairs, torch.__version__)
    return 0 if all(abs(pair["ratio"] - 1) <= BAR for pair in pairs) else 1


def pair_of(case: MemoryCase) -> dict[str, Any]:
    """A pair as JSON, with its `ratio`: planned over tracked. Raises RuntimeFailedError.

    It is compared in a process of its own: fake ranks and a large model leave their marks on one.
    """
    command = [sys.executable, "-m", "zerosim_runtime.equality.memory", "--one", case.name]
    done = subprocess.run(command, capture_output=True, check=False, env=environment(1))
    if done.returncode:
        last = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        raise RuntimeFailedError(f"pair '{case.name}' failed: {last}")
    pair: dict[str, Any] = orjson.loads(done.stdout)
    return pair | {"ratio": pair["planned_bytes"] / pair["tracked"]["peak_bytes"]}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
