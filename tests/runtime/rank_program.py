"""What each rank of the equality tests does: every case by its plan, then plainly by DDP, and compare."""

from __future__ import annotations

import sys
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import orjson
import torch
import torch.distributed as dist

from tests.runtime.cases import Case, cases_of
from zerosim.scenario import Scenario
from zerosim_runtime import actions
from zerosim_runtime.assignment import Assignment, write_assignment
from zerosim_runtime.clock import measure_offsets, one_clock
from zerosim_runtime.collectives import start_group
from zerosim_runtime.layout import Lane, Slot
from zerosim_runtime.optimizer import Settings
from zerosim_runtime.progress import Rank
from zerosim_runtime.rank import Trainer, make_trainer, open_rank, stop, train
from zerosim_runtime.reference import Trained, train_plainly

AHEAD_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Verdict:
    """How far a case is from plain DDP: the largest differences, and whether all bits are equal."""

    losses: list[float]
    loss_error: float
    parameter_error: float
    bitwise: bool


def main(directory: Path, n_ranks: int) -> None:
    sys.setswitchinterval(1e-4)
    torch.set_num_threads(1)
    start_group(60)
    verdicts = {c.name: asdict(judge(c, directory / c.name)) for c in cases_of(n_ranks)}
    report: dict[str, Any] = {"cases": verdicts, "one_clock": one_clock()}
    report["offsets"] = [asdict(o) for o in measure_offsets(_shifted)]
    (directory / f"report-{dist.get_rank()}.json").write_bytes(orjson.dumps(report))
    dist.destroy_process_group()


def _shifted() -> int:
    """A clock that is one second ahead a rank."""
    return time.perf_counter_ns() + dist.get_rank() * AHEAD_NS


def judge(case: Case, directory: Path) -> Verdict:
    scenario, settings = Scenario.from_dict(case.scenario), Settings(lr=case.lr)
    directory.mkdir(exist_ok=True)
    if dist.get_rank() == 0:
        write_assignment(Assignment(scenario.to_dict(), "gloo", 60), directory)
    recorder = open_rank(directory, "gloo", poison=True)
    trainer = make_trainer(scenario, recorder, backend="gloo", timeout_s=60, settings=settings)
    restore = plant(case.bug, trainer)
    losses = train(trainer)
    restore()
    stop(trainer)
    return _compare(losses, whole(trainer), train_plainly(scenario, trainer.dtype, settings))


def plant(bug: str | None, trainer: Trainer) -> Any:
    """Break the trainer in one named way; returns what mends the module again."""
    rank, place = trainer.execution.rank, actions._place
    if bug == "missing_mean":
        rank.n_ranks = 1
    elif bug == "stale_shard":
        # Gathers read the first values for ever; the optimizer steps the true shards.
        first = tuple(shard.clone() for shard in rank.weights.shards)
        rank.weights = replace(rank.weights, shards=first)
    elif bug == "row_order":
        actions._place = _interleaved
    return lambda: setattr(actions, "_place", place)


def _interleaved(rank: Rank, lane: Lane, slot: Slot) -> torch.Tensor:
    """A bucket whose rows alternate between ranks instead of lying end to end."""
    bucket = rank.memory.tensors[lane.buffer].view(lane.row, rank.layout.shards)
    return bucket.t()[:, slot.offset : slot.offset + slot.piece.row]


def whole(trainer: Trainer) -> list[list[torch.Tensor]]:
    """The trained parameters, whole, on every rank."""
    weights = trainer.execution.rank.weights
    owned = {
        (o.piece.unit, o.piece.index): o.weight for o in trainer.execution.rank.optimizer.owned
    }
    result: list[list[torch.Tensor]] = []
    for pieces in weights.layout.pieces:
        result.append([])
        for piece in pieces:
            if weights.layout.sharded:
                rows = [
                    torch.empty(piece.row, dtype=trainer.dtype)
                    for _ in range(dist.get_world_size())
                ]
                dist.all_gather(rows, owned[piece.unit, piece.index].contiguous())
                flat = torch.cat(rows)[: piece.numel]
            else:
                flat = weights.region(piece)
            result[-1].append(flat.view(piece.shape).clone())
    return result


def _compare(
    losses: tuple[float, ...], parameters: list[list[torch.Tensor]], plain: Trained
) -> Verdict:
    pairs = [
        (a, b)
        for x, y in zip(parameters, plain.parameters, strict=True)
        for a, b in zip(x, y, strict=True)
    ]
    return Verdict(
        losses=list(losses),
        loss_error=max(abs(a - b) for a, b in zip(losses, plain.losses, strict=True)),
        parameter_error=max((a - b).abs().max().item() for a, b in pairs),
        bitwise=losses == plain.losses and all(torch.equal(a, b) for a, b in pairs),
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
