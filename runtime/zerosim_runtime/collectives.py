"""Collectives of the real runtime: issued in order, waited for by one thread a communicator.

# Note [One queue a communicator]
Gloo gives a group two worker threads, so two collectives of one group may run at the same time. A
communicator here is a group with one worker: a first-in-first-out queue, like NCCL's. A waiter thread
waits for each collective in turn and notes when it ended, so a collective began when it was issued or
when the one before it ended, whichever was later. Only the waiter calls `Work.wait`: Gloo's
reduce-scatter copies its result there, and one by all-to-all is summed there.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from queue import SimpleQueue
from typing import Any, Final

import torch
import torch.distributed as dist

from zerosim.collectives import GLOO, GLOO_ALL_TO_ALL, node_bytes
from zerosim.errors import RuntimeFailedError, ZerosimError
from zerosim.kinds import Kind
from zerosim_runtime import cuda, gloo
from zerosim_runtime.clock import one_clock
from zerosim_runtime.pace import Flow, Pace, check_scatter

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
    """A collective under way. Times are perf_counter nanoseconds; None: not yet known.

    `on_end` is called by the waiter's thread, with the time, once it has ended well.
    """

    name: str
    issued_ns: int
    start_ns: int | None = None
    end_ns: int | None = None
    error: BaseException | None = None
    done: threading.Event = field(default_factory=threading.Event)
    on_stream: cuda.Issued | None = None
    on_end: list[Callable[[int], None]] = field(default_factory=list)

    def wait(self) -> None:
        """Let nothing that comes after begin before it has ended: on a GPU its current stream, else the host.

        Raises PeerLostError, or what a watcher has found wrong.
        """
        if self.on_stream is None:
            self.done.wait()
        else:
            self.on_stream.hold_up_stream()
        if isinstance(self.error, ZerosimError):
            raise self.error
        if self.error is not None:
            raise PeerLostError(f"'{self.name}' failed ({self.error}): see the other ranks")


Watcher = Callable[[Handle, Kind, int], None]
"""Told of a collective before it is issued: its handle, kind and elements of the full tensor."""


@dataclass(slots=True)
class Communicator:
    """One queue of collectives over all ranks, and the thread that waits for them.

    `pieces`: bytes of a rank's row that go at once, and reduce-scatters go by all-to-all; None: whole
    messages, as the backend does it. `pace`: see Note [Paced links] in zerosim_runtime.pace.
    """

    group: dist.ProcessGroup
    stream: torch.cuda.Stream | None
    now: Callable[[], int]
    stamps: cuda.Stamps | None = None
    pieces: int | None = None
    pace: Pace | None = None
    shared_clock: bool = True
    queue: SimpleQueue[tuple[Handle, Any] | None] = field(default_factory=SimpleQueue)
    waiter: threading.Thread | None = None
    watchers: list[Watcher] = field(default_factory=list)
    explain: Callable[[Handle, BaseException], ZerosimError | None] | None = None
    broken: bool = False

    def issue(
        self, kind: Kind, name: str, output: torch.Tensor, source: torch.Tensor, root: int = 0
    ) -> Handle:
        """Start a collective: `output` and `source` are flat; where it works in place, the same.

        all_gather fills `output` `[ranks·n]` from everyone's `source` `[n]`, reduce_scatter leaves in
        `output` `[n]` this rank's row of the sum, all_reduce sums in place, broadcast brings `root`'s,
        reduce leaves the sum on `root` (and on others anything).
        """
        handle = Handle(name, self.now())
        for watcher in self.watchers:
            watcher(handle, kind, max(output.numel(), source.numel()))
        try:
            work = self._start(kind, output, source, root, handle.issued_ns)
        except RuntimeError as error:
            if self.explain is not None and (reason := self.explain(handle, error)) is not None:
                raise reason from error
            raise PeerLostError(f"'{name}' failed ({error}): see the other ranks") from error
        if isinstance(work, cuda.Issued):
            handle.on_stream = work
        self.queue.put((handle, work))
        return handle

    def close(self) -> None:
        """Stop the waiter once what was issued has ended; if it is `broken`, that may be never."""
        self.queue.put(None)
        if self.waiter is not None and not self.broken:
            self.waiter.join()

    def _start(
        self, kind: Kind, output: torch.Tensor, source: torch.Tensor, root: int, issued_ns: int
    ) -> Any:  # noqa: ANN401 - a Work, a _Paced, an Issued
        if self.stream is None:
            if self.pace is None:
                return self._move(kind, output, source, root)
            issued = torch.tensor([issued_ns])
            agreed = dist.all_reduce(issued, dist.ReduceOp.MAX, self.group, async_op=True)
            nbytes = max(output.numel(), source.numel()) * source.element_size()
            return _Paced(agreed, issued, nbytes, kind, self._move(kind, output, source, root))
        stamps = self.stamps or cuda.stamps_of(output.device)
        self.stamps = stamps

        def start() -> None:
            call(kind, output, source, root, self.group, asynchronous=False)

        return cuda.issue(self.stream, stamps, (output, source), start)

    def _move(self, kind: Kind, output: torch.Tensor, source: torch.Tensor, root: int) -> Any:  # noqa: ANN401 - a Work
        if self.pieces is not None and kind is Kind.ALL_GATHER:
            return gloo.gather_in_pieces(output, source, self.group, self.pieces)
        if self.pieces is not None and kind is Kind.REDUCE_SCATTER:
            return gloo.scatter_by_all_to_all(output, source, self.group, self.pieces)
        return call(kind, output, source, root, self.group, asynchronous=True)


@dataclass(frozen=True, slots=True)
class _Paced:
    """A collective of a paced communicator: when the last rank `issued` it is `agreed` on first."""

    agreed: Any
    issued: torch.Tensor
    nbytes: int
    kind: Kind
    work: Any


def call(
    kind: Kind,
    output: torch.Tensor,
    source: torch.Tensor,
    root: int,
    group: dist.ProcessGroup,
    *,
    asynchronous: bool,
) -> Any:  # noqa: ANN401 - torch's own Work
    """Call torch's collective of that kind on flat tensors, as `Communicator.issue` says."""
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
    backend: str,
    timeout_s: float,
    now: Callable[[], int] = time.perf_counter_ns,
    *,
    scatter: str = "native",
    pace: Pace | None = None,
) -> Communicator:
    """Make a communicator over all ranks; every rank must do so in the same order.

    `scatter`: native, or all-to-all for Gloo (messages then go in pieces, see Note [Pieces] in
    zerosim_runtime.gloo). `pace`: the link that it shares with all communicators that are given the
    same one; Gloo only. Raises UnknownNameError, RuntimeFailedError.
    """
    split = check_scatter(scatter) == "all-to-all"
    if backend != "gloo" and (split or pace is not None):
        wanted = "a pace" if pace is not None else "scatter all-to-all"
        raise RuntimeFailedError(f"backend '{backend}' has no {wanted}: use gloo")
    gloo.register()
    name = gloo.GLOO_QUEUE if backend == "gloo" else backend
    group = dist.new_group(backend=name, timeout=timedelta(seconds=timeout_s))
    if group is None or not isinstance(group, dist.ProcessGroup):
        raise RuntimeFailedError(f"backend '{backend}' gave no process group: use gloo or nccl")
    made = Communicator(group, cuda.new_stream() if backend == "nccl" else None, now)
    if split:
        # What is paced does not wait behind its own bytes: whole messages cost less.
        made.pieces = gloo.PIECE_BYTES if pace is None else gloo.WHOLE
    if pace is not None:
        made.pace, made.shared_clock = pace, one_clock()
    made.waiter = threading.Thread(target=_wait_in_turn, args=(made,), daemon=True)
    made.waiter.start()
    return made


def _wait_in_turn(made: Communicator) -> None:
    previous = 0
    if made.stream is not None:
        cuda.stay_with(made.stream)
    while (item := made.queue.get()) is not None:
        handle, work = item
        timed: tuple[int, int] | None = None
        try:
            if isinstance(work, cuda.Issued):
                timed = work.times()
            else:
                _await(made, work, previous)
        except Exception as error:  # noqa: BLE001 - it is raised again in the rank's main thread
            reason = made.explain(handle, error) if made.explain is not None else None
            handle.error = handle.error or reason or error
        handle.start_ns, ended = timed or (max(handle.issued_ns, previous), made.now())
        if handle.error is None:
            handle.end_ns = previous = ended
            for tell in handle.on_end:
                tell(ended)
        # The tensors are let go before anyone may free them.
        del item, work
        handle.done.set()


def _await(made: Communicator, work: Any, previous: int) -> None:  # noqa: ANN401 - a Work, a _Paced
    """Wait until a collective has ended."""
    if made.pace is None or not isinstance(work, _Paced):
        work.wait()
    else:
        work.agreed.wait()
        ready = max(int(work.issued.item()), previous) if made.shared_clock else made.now()
        flow = _begin(made, made.pace, work, ready)
        work.work.wait()
        made.pace.finish(flow)


def _begin(made: Communicator, pace: Pace, work: _Paced, ready_ns: int) -> Flow:
    backend = GLOO if made.pieces is None else GLOO_ALL_TO_ALL
    size = dist.get_world_size(made.group)
    moved = node_bytes(work.kind, work.nbytes, size, pace.ranks_per_node, backend)
    return pace.begin(ready_ns, moved)


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
    gloo.register()
    dist.init_process_group("gloo", timeout=timedelta(seconds=timeout_s))
