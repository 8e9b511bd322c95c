"""One of two ranks whose clocks may be apart: asks rank 1 for its time through a store, and prints the offset."""

from __future__ import annotations

import sys
from datetime import timedelta

from torch._C._distributed_c10d import TCPStore

from zerosim_runtime.tracing.offsets import measure


def main(rank: int, port: int) -> None:
    store = TCPStore("127.0.0.1", port, 2, rank == 0, timedelta(seconds=60), wait_for_workers=False)
    print(store.port, flush=True)  # noqa: T201
    found = measure(store, rank, 2, "first")
    print(found if found is None else [(o.rank, o.offset_ns, o.error_ns) for o in found])  # noqa: T201
    # Rank 0 holds the store, so that it ends last; rank 1 asks nothing of it any more.
    if rank:
        store.set("done", "")
    else:
        store.get("done")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
