"""What each of three ranks does for the trainer's tests: cases beside DDP, and checkpoints."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import orjson
import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from zerosim.errors import InputError, ZerosimError
from zerosim_runtime.optimizer import Settings
from zerosim_runtime.zero import Options, Trainer, checkpoint, shard

SETTINGS = Settings(lr=0.1)
PARTITIONS = ("even", "whole")


class Net(nn.Module):
    """Two layers, the second of which can be left out."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.first = nn.Linear(3, 7)
        self.second = nn.Linear(7, 7)
        self.drop = False

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        middle: torch.Tensor = torch.tanh(self.first(inputs))
        return middle if self.drop else middle + self.second(middle)


def main(directory: Path) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    report: dict[str, Any] = {
        f"{partition} {stage}": beside_ddp(
            Options(stage, settings=SETTINGS, clip_norm=1, bucket_bytes=100, partition=partition)
        )
        for partition in PARTITIONS
        for stage in (1, 2)
    }
    report["balance"] = {partition: optimizer_bytes(partition) for partition in PARTITIONS}
    report["overflow"] = overflow()
    report["saved"] = save(directory / "by-three")
    report["loaded"] = load(directory / "by-one")
    report["differ"] = [
        differ(Net(), dist.get_rank()),
        differ(nn.Linear(1, 1 + dist.get_rank()), 2),
    ]
    report["failed"] = fail_to_save(directory / "by-three")
    (directory / f"report-{dist.get_rank()}.json").write_bytes(orjson.dumps(report))
    dist.destroy_process_group()


def loss_of(net: nn.Module, step: int, micro_batch: int = 0) -> torch.Tensor:
    inputs = torch.arange(6.0, dtype=torch.float64).view(2, 3) / (1 + step + micro_batch)
    loss: torch.Tensor = net(inputs * (1 + dist.get_rank())).square().mean()
    return loss


def beside_ddp(options: Options) -> float:
    """The largest difference from DDP; rank 1 alone drops a layer at times, all do at other times."""
    plain, net = Net().double(), Net(dist.get_rank()).double()
    ddp = DistributedDataParallel(plain, find_unused_parameters=True)
    stepper = torch.optim.AdamW(ddp.parameters(), lr=0.1, foreach=False)
    with shard(net, options) as trainer:
        for step in range(6):
            stepper.zero_grad()
            plain.drop = net.drop = step == 2 or (step == 4 and dist.get_rank() == 1)
            for micro_batch in range(2):
                with ddp.no_sync() if micro_batch == 0 else nullcontext():
                    (loss_of(ddp, step, micro_batch) / 2).backward()
                trainer.backward(loss_of(net, step, micro_batch) / 2, last=micro_batch == 1)
            nn.utils.clip_grad_norm_(ddp.parameters(), 1.0)
            stepper.step()
            trainer.step()
        pairs = zip(net.parameters(), plain.parameters(), strict=True)
        return max((a - b).abs().max().item() for a, b in pairs)


def optimizer_bytes(partition: str) -> int:
    net = nn.ParameterDict({"big": torch.zeros(7), "small": torch.zeros(5)})
    with shard(net, Options(2, partition=partition)) as trainer:
        return sum(n for kind, n in trainer.ledger.booked.values() if kind == "optimizer")


def overflow() -> list[Any]:
    """The last element of the last rank's row alone is not finite."""
    net = Net()
    with shard(net, Options(2, torch.float16, loss_scale=0)) as trainer:
        before = trainer.whole()
        loss = net(torch.ones(2, 3))[:, -1].sum() * (1e6 if dist.get_rank() == 2 else 0)
        trainer.backward(loss.float())
        skipped = trainer.step().skipped
        same = all(torch.equal(before[name], now) for name, now in trainer.whole().items())
        assert trainer.scale is not None
        return [skipped, same, trainer.scale.value]


def train(trainer: Trainer, steps: range) -> None:
    """The same inputs on every rank, so that their number makes no difference."""
    for step in steps:
        inputs = torch.arange(6.0, dtype=torch.float64).view(2, 3) / (1 + step)
        trainer.backward(trainer.model(inputs).square().mean())
        trainer.step()


def values(trainer: Trainer) -> dict[str, list[float]]:
    return {name: tensor.view(-1).tolist() for name, tensor in trainer.whole().items()}


def save(directory: Path) -> dict[str, list[float]]:
    with shard(Net().double(), Options(2, settings=SETTINGS)) as trainer:
        train(trainer, range(3))
        trainer.save(directory)
        train(trainer, range(3, 6))
        return values(trainer)


def load(directory: Path) -> dict[str, list[float]]:
    with shard(Net(1).double(), Options(1, settings=SETTINGS)) as trainer:
        trainer.load(directory)
        train(trainer, range(3, 6))
        return values(trainer)


def differ(net: nn.Module, stage: int) -> str:
    """Ranks that ask for other things: their options, or their modules."""
    try:
        shard(net, Options(max(stage, 1))).close()
    except InputError as error:
        return str(error)
    return ""


def fail_to_save(directory: Path) -> str:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with (
        shard(Net().double(), Options(2, settings=SETTINGS)) as trainer,
        pytest.MonkeyPatch.context() as patch,
    ):
        if dist.get_rank() == 1:
            patch.setattr(checkpoint, "write_tensors", full)
        try:
            trainer.save(directory)
        except ZerosimError as error:
            return str(error)
    return ""


if __name__ == "__main__":
    main(Path(sys.argv[1]))
