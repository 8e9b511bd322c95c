"""A program of one rank that ends as its first argument says, after one all-reduce."""

import os
import socket
import sys
import time

import torch
import torch.distributed as dist


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def main(how: str) -> None:
    own = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1"}
    os.environ |= own | {"MASTER_PORT": str(free_port())}
    dist.init_process_group("gloo")
    dist.all_reduce(torch.ones(10))
    if how == "raise":
        raise ValueError("boom")
    if how == "exit":
        os._exit(3)
    if how == "sleep":
        sys.stdout.write("asleep\n")
        sys.stdout.flush()
        time.sleep(1_000)
    if how == "fork":
        child = os.fork()
        if child == 0:
            sys.exit(0)
        os.waitpid(child, 0)
    dist.all_reduce(torch.ones(10))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
