"""A training loop under ZeRO: `torchrun --nproc-per-node 2 train_zero.py STAGE`."""

import sys

import torch
import torch.distributed as dist
from torch import nn

from zerosim_runtime.zero import Options, shard


def main(stage: int) -> None:
    """Learn to turn a vector round; rank 0 prints the loss."""
    dist.init_process_group("gloo")  # with GPUs: "nccl", and the model and inputs on the rank's own
    torch.manual_seed(0)  # the same model, and so the same losses, at every stage
    model = nn.Sequential(nn.Linear(16, 64), nn.Tanh(), nn.Linear(64, 16))
    torch.manual_seed(dist.get_rank())
    with shard(model, Options(stage=stage, clip_norm=1.0)) as trainer:
        for step in range(20):
            inputs = torch.randn(8, 16)
            loss = (model(inputs) - inputs.flip(1)).square().mean()
            trainer.backward(loss)
            stepped = trainer.step()
            if dist.get_rank() == 0:
                print(f"step {step}: loss {loss:.3f}, gradient norm {stepped.norm:.3f}")  # noqa: T201
        trainer.save("checkpoint")
    dist.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]))
