"""The ZeRO library at stage 2, in a loop like torch's examples have."""

import torch
import torch.distributed as dist
from torch import nn

from zerosim_runtime.zero import Options, shard


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(8, 32), nn.Linear(32, 8)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        moved: torch.Tensor = self.down(torch.relu(self.up(hidden)))
        return hidden + moved


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(4))
        self.head = nn.Linear(8, 4)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            hidden = block(hidden)
        answer: torch.Tensor = self.head(hidden)
        return answer


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = Net()
    with shard(model, Options(stage=2)) as trainer:
        torch.manual_seed(1 + rank)
        for _ in range(3):
            inputs, targets = torch.randn(16, 8), torch.randn(16, 4)
            loss = nn.functional.mse_loss(model(inputs), targets)
            trainer.backward(loss)
            trainer.step()
            print(f"rank {rank} loss {loss.item():.17g}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
