"""Collectives of the real runtime: issued in order, waited for by one thread a communicator.

# Note [One queue a communicator]
Gloo gives a group two worker threads, so two collectives of one group may run at the same time. A
communicator here is a group with one worker: a first-in-first-out queue, like NCCL's. A waiter thread
waits for each collective in turn and notes when it ended, so a collective began when it was issued or
when the one before it ended, whichever was later. Only the waiter calls `Work.wait`: Gloo's
reduce-scatter copies its result there.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from queue import SimpleQueue
from typing import Any, Final

import torch
import torch.distributed as dist

from zerosim.errors import RuntimeFailedError
from zerosim.kinds import Kind

_GLOO_QUEUE: Final = "zerosim_gloo"
_all_gather: Final[Callable[..., Any]] = getattr(
    dist, "all_gather_single", dist.all_gather_into_tensor
)
_reduce_scatter: Final[Callable[..., Any]] = getattr(
    dist, "reduce_scatter_single", dist.reduce_scatter_tensor
)


class PeerLostError(RuntimeFailedError):
    """A collective failed: another rank is gone, or did not come in time."""


@dataclass(slots=True)
class Handle:
    """A collective under way. Times are perf_counter nanoseconds; None: not yet known."""

    name: str
    issued_ns: int
    start_ns: int | None = None
    end_ns: int | None = None
    error: BaseException | None = None
    done: threading.Event = field(default_factory=threading.Event)

    def wait(self) -> None:
        """Block until it has ended. Raises PeerLostError."""
        self.done.wait()
        if self.error is not None:
            raise PeerLostError(f"'{self.name}' failed ({self.error}): see the other ranks")


@dataclass(slots=True)
class Communicator:
    """One queue of collectives over all ranks, and the thread that waits for them."""

    group: dist.ProcessGroup
    stream: torch.cuda.Stream | None
    now: Callable[[], int]
    queue: SimpleQueue[tuple[Handle, Any] | None] = field(default_factory=SimpleQueue)
    waiter: threading.Thread | None = None

    def issue(
        self, kind: Kind, name: str, output: torch.Tensor, source: torch.Tensor, root: int = 0
    ) -> Handle:
        """Start a collective: `output` and `source` are flat; where it works in place, the same.

        all_gather fills `output` `[ranks·n]` from everyone's `source` `[n]`, reduce_scatter leaves in
        `output` `[n]` this rank's row of the sum, all_reduce sums in place, broadcast brings `root`'s,
        reduce leaves the sum on `root` (and on others anything).
        """
        handle = Handle(name, self.now())
        try:
            work = self._start(kind, output, source, root)
        except RuntimeError as error:
            raise PeerLostError(f"'{name}' failed ({error}): see the other ranks") from error
        self.queue.put((handle, work))
        return handle

    def close(self) -> None:
        """Stop the waiter once what was issued has ended."""
        self.queue.put(None)
        if self.waiter is not None:
            self.waiter.join()

    def _start(self, kind: Kind, output: torch.Tensor, source: torch.Tensor, root: int) -> Any:  # noqa: ANN401 - a Work or a CUDA event
        if self.stream is None:
            return _call(kind, output, source, root, self.group, asynchronous=True)
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            _call(kind, output, source, root, self.group, asynchronous=False)
            return self.stream.record_event()


def _call(
    kind: Kind,
    output: torch.Tensor,
    source: torch.Tensor,
    root: int,
    group: dist.ProcessGroup,
    *,
    asynchronous: bool,
) -> Any:  # noqa: ANN401 - torch's own Work
    if kind is Kind.ALL_GATHER:
        return _all_gather(output, source, group=group, async_op=asynchronous)
    if kind is Kind.REDUCE_SCATTER:
        return _reduce_scatter(output, source, group=group, async_op=asynchronous)
    if kind is Kind.ALL_REDUCE:
        return dist.all_reduce(output, group=group, async_op=asynchronous)
    if kind is Kind.BROADCAST:
        return dist.broadcast(output, src=root, group=group, async_op=asynchronous)
    if kind is Kind.REDUCE:
        return dist.reduce(output, dst=root, group=group, async_op=asynchronous)
    raise RuntimeFailedError(
        f"no real '{kind}': use all_gather, reduce_scatter, all_reduce, broadcast or reduce"
    )


def communicator(
    backend: str, timeout_s: float, now: Callable[[], int] = time.perf_counter_ns
) -> Communicator:
    """Make a communicator over all ranks; every rank must do so in the same order."""
    _register_queue()
    name = _GLOO_QUEUE if backend == "gloo" else backend
    group = dist.new_group(backend=name, timeout=timedelta(seconds=timeout_s))
    if group is None or not isinstance(group, dist.ProcessGroup):
        raise RuntimeFailedError(f"backend '{backend}' gave no process group: use gloo or nccl")
    cuda: Any = torch.cuda  # untyped
    stream = cuda.Stream() if backend == "nccl" else None
    made = Communicator(group, stream, now)
    made.waiter = threading.Thread(target=_wait_in_turn, args=(made,), daemon=True)
    made.waiter.start()
    return made


def _wait_in_turn(made: Communicator) -> None:
    previous = 0
    while (item := made.queue.get()) is not None:
        handle, work = item
        try:
            work.synchronize() if made.stream is not None else work.wait()
        except Exception as error:  # noqa: BLE001 - it is raised again in the rank's main thread
            handle.error = error
        ended = made.now()
        handle.start_ns = max(handle.issued_ns, previous)
        if handle.error is None:
            handle.end_ns = previous = ended
        # The tensors are let go before anyone may free them.
        del item, work
        handle.done.set()


def choose_backend(wanted: str, n_ranks: int) -> str:
    """`auto`: nccl where every rank of this machine has a GPU of its own, else gloo."""
    if wanted == "auto":
        return "nccl" if torch.cuda.device_count() >= n_ranks else "gloo"
    if wanted == "nccl" and torch.cuda.device_count() < n_ranks:
        raise RuntimeFailedError(
            f"backend nccl needs {n_ranks} GPUs, there are {torch.cuda.device_count()}: use gloo"
        )
    return wanted


def start_group(timeout_s: float) -> None:
    """Join the ranks torchrun started (its environment says where); gloo carries the control talk."""
    _register_queue()
    dist.init_process_group("gloo", timeout=timedelta(seconds=timeout_s))


def _register_queue() -> None:
    if _GLOO_QUEUE.upper() not in dist.Backend.backend_list and not hasattr(
        dist.Backend, _GLOO_QUEUE.upper()
    ):
        dist.Backend.register_backend(_GLOO_QUEUE, _one_worker, devices=["cpu"])


def _one_worker(store: object, rank: int, size: int, timeout: timedelta) -> object:
    # See Note [One queue a communicator]. torch has no public way to say it, nor types for it.
    gloo: Any = dist.ProcessGroupGloo
    options = gloo._Options()  # noqa: SLF001 - torch has no public way
    options._threads = 1  # noqa: SLF001 - same
    options._timeout = timeout  # noqa: SLF001 - same
    options._devices = [_device(gloo)]  # noqa: SLF001 - same
    return gloo(store, rank, size, options)


def _device(gloo: Any) -> Any:  # noqa: ANN401 - torch has no types for it
    """The interface that the launcher named, as torch does for groups of its own."""
    name = os.environ.get("GLOO_SOCKET_IFNAME", "").split(",")[0]
    return gloo.create_device(interface=name) if name else gloo.create_default_device()
