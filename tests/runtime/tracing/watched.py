"""Every collective and several ways of training as two ranks, watched: `python watched.py DIRECTORY`.

Both ranks are forks of one process that has imported torch. Each case leaves the record of its ranks in
`DIRECTORY/CASE`, and what it computed in `DIRECTORY/CASE/result-RANK.json`; `plain-…` is the same
without a session.
"""

from __future__ import annotations

import os
import sys
import traceback
import warnings
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import orjson
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import fsdp
from torch.distributed._functional_collectives import all_gather_tensor, all_reduce
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import profile

from zerosim.kinds import Kind
from zerosim_runtime.tracing import session
from zerosim_runtime.tracing.labels import Label, labelled
from zerosim_runtime.tracing.tracer import open_tracer

Json = dict[str, Any]
torch_dist: Any = dist
"""What torch.distributed has, and does not list."""
RANKS = 2


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(8)
        self.linear = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = x + self.linear(self.norm(x))
        return out


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(2))
        self.inward = nn.Linear(4, 8)
        self.blocks = nn.ModuleList([Block(), Block()])
        self.head = nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.inward(x) * self.scale[0]
        for block in self.blocks:
            x = block(x)
        out: torch.Tensor = self.head(x)
        return out


def ones(*shape: int) -> torch.Tensor:
    return torch.ones(shape) * (dist.get_rank() + 1)


def collectives() -> Json:
    """One of each kind, in the order in which the test lists them."""
    rank, other = dist.get_rank(), 1 - dist.get_rank()
    out: dict[str, torch.Tensor] = {}
    lists = [torch.empty(4), torch.empty(4)]
    dist.all_gather(lists, ones(4))
    out["all_gather"] = torch.cat(lists)
    out["gathered"] = torch.empty(8)
    dist.all_gather_single(out["gathered"], ones(4))
    out["scattered"] = torch.empty(3)
    dist.reduce_scatter_single(out["scattered"], ones(6))
    out["scattered_list"] = torch.empty(3)
    dist.reduce_scatter(out["scattered_list"], [ones(3), ones(3)])
    out["sum"] = ones(5)
    dist.all_reduce(out["sum"])
    out["max"] = ones(5).to(torch.float64)
    dist.all_reduce(out["max"], op=dist.ReduceOp.MAX)
    with torch_dist._coalescing_manager() as _:
        out["one"], out["two"] = ones(2), ones(3)
        dist.all_reduce(out["one"])
        dist.all_reduce(out["two"])
    out["broadcast"] = ones(4)
    dist.broadcast(out["broadcast"], 1)
    out["reduced"] = ones(4)
    dist.reduce(out["reduced"], 0)
    dist.gather(ones(4), lists if rank == 0 else None, 0)
    out["from_0"] = torch.empty(4)
    dist.scatter(out["from_0"], [ones(4), ones(4) * 5] if rank == 0 else None, 0)
    out["exchanged"] = torch.empty(4)
    dist.all_to_all_single(out["exchanged"], ones(4))
    out["uneven"] = torch.empty(4)
    splits = [1, 3] if rank == 0 else [3, 1]
    dist.all_to_all_single(out["uneven"], ones(4), splits, splits)
    dist.barrier()
    dist.monitored_barrier(timeout=timedelta(seconds=30))
    out["received"] = torch.empty(6)
    if rank == 0:
        dist.send(ones(6), 1)
    else:
        dist.recv(out["received"], 0)
    out["message"] = torch.empty(2)
    for work in dist.batch_isend_irecv(
        [dist.P2POp(dist.isend, ones(2), other), dist.P2POp(dist.irecv, out["message"], other)]
    ):
        work.wait()
    out["functional"] = all_reduce(ones(3), "avg", torch_dist.group.WORLD) + 0
    out["functional_gather"] = all_gather_tensor(ones(2), 0, torch_dist.group.WORLD) + 0
    objects: list[object] = [None, None]
    dist.all_gather_object(objects, {"rank": rank})
    with labelled(Label("blocks.7", 3, Kind.REDUCE_SCATTER, 12, "reduce_scatter")):
        out["labelled"] = torch.empty(6)
        dist.all_to_all_single(out["labelled"], ones(6))
    del out["received" if rank == 0 else "from_0"]
    return {name: tensor.tolist() for name, tensor in out.items() if name != "reduced"}


def groups() -> Json:
    """Sub-groups, a group that is made anew, an error, a thread of the program's own."""
    pair = dist.new_group([0, 1], group_desc="pair")
    alone = [dist.new_group([0]), dist.new_group([1])][dist.get_rank()]
    total = ones(3)
    dist.all_reduce(total, group=pair)
    dist.all_reduce(total, group=alone)
    try:
        dist.all_gather_single(torch.empty(3), ones(2))
        said = "nothing"
    except Exception as error:  # noqa: BLE001 - whatever torch raises is compared
        said = f"{type(error).__name__}: {str(error)[:60]}"
    dist.destroy_process_group()
    again = Path(os.environ["CASE"]) / "again"
    dist.init_process_group(
        "gloo",
        store=torch_dist.FileStore(str(again), RANKS),
        rank=int(os.environ["RANK"]),
        world_size=RANKS,
    )
    dist.all_reduce(total)
    child = os.fork()
    if child == 0:
        os._exit(0 if session._session is None else 1)
    return {"total": total.tolist(), "said": said, "child": os.waitpid(child, 0)[1]}


def train(
    make: Callable[[nn.Module], nn.Module], micro_batches: int = 1, *, own: bool = False
) -> Json:
    torch.manual_seed(0)
    model = make(Net())
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    losses = []
    for step in range(4):
        for micro_batch in range(micro_batches):
            torch.manual_seed(10 * step + micro_batch + dist.get_rank())
            loss: torch.Tensor = model(torch.randn(2, 4)).square().mean()
            loss.backward()
        if own:
            for parameter in model.parameters():
                dist.all_reduce(parameter.grad)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(average(loss.detach()))
    return {"losses": losses}


def average(loss: torch.Tensor) -> float:
    dist.all_reduce(loss)
    return loss.item()


def ddp(model: nn.Module) -> nn.Module:
    return DistributedDataParallel(model, bucket_cap_mb=0.0004)


def ddp_views(model: nn.Module) -> nn.Module:
    return DistributedDataParallel(model, bucket_cap_mb=0.0004, gradient_as_bucket_view=True)


def hooked(model: nn.Module) -> nn.Module:
    wrapped = DistributedDataParallel(model, bucket_cap_mb=0.0004)
    wrapped.register_comm_hook(None, allreduce_hook)
    return wrapped


def sharded(model: nn.Module) -> nn.Module:
    mesh = torch_dist.init_device_mesh("cpu", (RANKS,))
    for block in model.get_submodule("blocks").children():
        fsdp.fully_shard(block, mesh=mesh)
    fsdp.fully_shard(model, mesh=mesh)
    return model


def profiled() -> Json:
    """The program profiles itself in between."""
    dist.all_reduce(ones(3))
    with profile() as found:
        dist.all_reduce(ones(4))
        out = torch.empty(2)
        dist.reduce_scatter_single(out, ones(4))
    dist.all_reduce(ones(5))
    names = sorted({event.key for event in found.key_averages() if "gloo" in event.key})
    return {"names": names, "out": out.tolist()}


CASES: dict[str, Callable[[], Json]] = {
    "collectives": collectives,
    "groups": groups,
    "profiled": profiled,
    "own": lambda: train(lambda model: model, own=True),
    "ddp": lambda: train(ddp, micro_batches=2),
    "ddp-views": lambda: train(ddp_views),
    "hooked": lambda: train(hooked),
    "fsdp2": lambda: train(sharded),
}


def rank_of(case: str, directory: Path, rank: int, *, watched: bool) -> None:
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(RANKS), "GLOO_SOCKET_IFNAME": "lo"}
    os.environ["CASE"] = str(directory)
    directory.mkdir(parents=True, exist_ok=True)
    store = torch_dist.FileStore(str(directory / "store"), RANKS)
    tracer = open_tracer(directory, rank, {"case": case}) if watched else None
    if tracer is not None:
        session.start(tracer)
    dist.init_process_group(
        "gloo", store=store, rank=rank, world_size=RANKS, timeout=timedelta(seconds=60)
    )
    result = CASES[case]()
    result["problems"] = list(session.problems())
    session.stop()
    if tracer is not None:
        tracer.close("finished")
    (directory / f"result-{rank}.json").write_bytes(orjson.dumps(result))


def both(case: str, directory: Path, *, watched: bool) -> bool:
    pids = []
    for rank in range(RANKS):
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                rank_of(case, directory, rank, watched=watched)
                code = 0
            except BaseException:  # noqa: BLE001 - a fork must not go on as its parent
                traceback.print_exc()
            finally:
                os._exit(code)
        pids.append(pid)
    codes = [os.waitpid(pid, 0)[1] for pid in pids]
    return not any(codes)


def main(directory: Path, cases: list[str]) -> int:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    done = True
    for case in cases or list(CASES):
        done &= both(case, directory / case, watched=True)
        done &= both(case, directory / f"plain-{case}", watched=False)
    return 0 if done else 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
