"""A script that traces itself: three lines, and a run where its first argument says."""

import sys

import torch
import torch.distributed as dist

from zerosim_runtime import tracing


def main(run: str) -> None:
    dist.init_process_group("gloo")
    with tracing.trace(run):
        for _ in range(3):
            dist.all_reduce(torch.ones(100))
    dist.all_reduce(torch.ones(100))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(f"{sys.argv[1]}/run")
