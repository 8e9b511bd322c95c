"""What each rank of the stage 3 tests does: every case in shards and plainly, and the orders of steps."""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import orjson
import torch
import torch.distributed as dist

from tests.runtime.zero.stage3_cases import Case, cases_of, train_plainly, train_sharded
from tests.runtime.zero.stage3_order import WANTED, real
from zerosim_runtime.collectives import start_group


@dataclass(frozen=True, slots=True)
class Verdict:
    """How far a case is from plain averaging, and whether all bits are equal."""

    loss_error: float
    parameter_error: float
    bitwise: bool


def main(directory: Path) -> None:
    sys.setswitchinterval(1e-4)
    torch.set_num_threads(1)
    start_group(60)
    n_ranks = dist.get_world_size()
    report: dict[str, Any] = {
        "cases": {c.name: asdict(judge(c)) for c in cases_of(n_ranks)},
        "orders": {wanted.name: asdict(real(wanted)) for wanted in WANTED},
    }
    (directory / f"report-{dist.get_rank()}.json").write_bytes(orjson.dumps(report))
    dist.destroy_process_group()


def judge(case: Case) -> Verdict:
    """float32 up to two ranks, where a sum of two has one order; else float64."""
    dtype = torch.float32 if dist.get_world_size() <= 2 else torch.float64
    mine, plain = train_sharded(case, dtype), train_plainly(case, dtype)
    pairs = [(mine.parameters[name], p) for name, p in plain.parameters.items()]
    numbers = list(
        zip(mine.losses + mine.evaluations, plain.losses + plain.evaluations, strict=True)
    )
    return Verdict(
        loss_error=max(abs(a - b) for a, b in numbers),
        parameter_error=max((a - b).abs().max().item() for a, b in pairs),
        bitwise=all(a == b for a, b in numbers) and all(torch.equal(a, b) for a, b in pairs),
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
