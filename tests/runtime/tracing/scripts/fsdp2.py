"""fully_shard (FSDP2), in the style of torch's own examples."""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.optim import AdamW


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
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    model = Net()
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = AdamW(model.parameters(), lr=0.01)
    torch.manual_seed(1 + rank)
    for _ in range(3):
        inputs, targets = torch.randn(16, 8), torch.randn(16, 4)
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        optimizer.step()
        print(f"rank {rank} loss {loss.item():.17g}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
