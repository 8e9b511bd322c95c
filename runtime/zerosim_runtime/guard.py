"""Ranks compare what they issue, so that none of them trains on another's layer without a word.

# Note [Two gathers of one shape]
Gloo and NCCL match collectives by their order alone. If rank 0 gathers layers 1, 2 and rank 1 gathers
2, 1, both get the other's layer and nobody notices; if the shapes differ, Gloo ends the process. So
every rank tells the others through the group's store what it issues: kind, name and elements.
- At the end of every step the digests of all ranks must be equal, else the step fails on all ranks.
- A collective that never before followed the one before it is compared before it is issued.
- While a rank waits for long, its guard compares what the others say, and wakes it.
"""

from __future__ import annotations

import atexit
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import count
from typing import Any, Final

import torch.distributed as dist
from torch.distributed import distributed_c10d

from zerosim.errors import RuntimeFailedError
from zerosim.kinds import Kind
from zerosim_runtime.agreement import Queue, Said, apart, hear, say
from zerosim_runtime.collectives import Communicator, Handle, PeerLostError
from zerosim_runtime.tracing.session import current_ring

_PERIOD_S: Final = 0.5
_POLL_S: Final = 0.001
_LAST_WORDS_S: Final = 2.0
_MANY: Final = 16
"""With more ranks, what is new is compared at the step's end only: each would read what all say."""
_LONG: Final = 4096
"""Collectives without a step's end (an evaluation) after which ranks compare all the same."""
_numbers: Final = count()


class MismatchError(RuntimeFailedError):
    """Ranks issued different collectives, so that the results of this step are wrong on all of them."""


@dataclass(slots=True)
class Guard:
    """One rank's part in the comparison. What it finds is raised where the rank waits or issues next.

    A rank that is not heard of for `timeout_s` is lost.
    """

    store: Any
    rank: int
    n_ranks: int
    prefix: str
    timeout_s: float
    queues: dict[str, Queue] = field(default_factory=dict)
    channels: list[Communicator] = field(default_factory=list)
    settled: int = 0
    ended: bool = False
    verdict: MismatchError | None = None
    _under_way: dict[int, tuple[Handle, float]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _closed: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def watch(self, name: str, channel: Communicator) -> None:
        """Compare what is issued on a queue from now on; all ranks must call it `name`."""
        queue = self.queues[name] = Queue()

        def note(handle: Handle, kind: Kind, elements: int) -> None:
            self._note(name, queue, handle, (kind.value, handle.name, elements))

        def explain(handle: Handle, error: BaseException) -> RuntimeFailedError | None:
            return self._explain(name, handle, error)

        self.channels.append(channel)
        channel.watchers.append(note)
        channel.explain = explain

    def settle(self) -> None:
        """The step has ended: all ranks must have issued the same. Raises MismatchError, PeerLostError."""
        if self.verdict is not None:
            raise self.verdict
        self.ended = True
        ring = current_ring()
        if ring is not None:
            ring.wait(self.settled, "end of step")
        mine = b"".join(self.queues[name].digest for name in sorted(self.queues))
        self.store.set(self._key(f"end/{self.settled}", self.rank), mine or b"-")
        keys = [self._key(f"end/{self.settled}", rank) for rank in range(self.n_ranks)]
        if len({bytes(digest) for digest in self._read(keys)}) > 1:
            self._publish()
            self._tell(self._difference())
        if self.settled:
            # Who is here has read all of the step before.
            self.store.delete_key(self._key(f"end/{self.settled - 1}", self.rank))
        if ring is not None:
            ring.wait(self.settled, "")
        with self._lock:
            self.settled, self.ended = self.settled + 1, False
            for queue in self.queues.values():
                queue.begin()

    def close(self) -> None:
        """Stop comparing."""
        atexit.unregister(self.close)
        self._closed.set()
        if self._thread is not None:
            self._thread.join()

    def start(self) -> None:
        """Begin to look on."""
        self._publish()
        # A thread inside the store when the interpreter ends would abort the process.
        atexit.register(self.close)
        self._thread = threading.Thread(target=self._look_on, daemon=True)
        self._thread.start()

    def _note(self, name: str, queue: Queue, handle: Handle, entry: tuple[str, str, int]) -> None:
        if self.verdict is not None:
            raise self.verdict
        if len(queue.entries) >= _LONG:
            self.settle()
        if queue.add(entry) and self.n_ranks <= _MANY:
            self._agree(name)
        number = id(handle)
        self._under_way[number] = (handle, time.monotonic())
        handle.on_end.append(lambda _: self._under_way.pop(number, None) and None)

    def _agree(self, name: str) -> None:
        """Wait until all ranks have come as far in a queue, and compare."""
        self._publish()
        deadline = time.monotonic() + self.timeout_s
        reached = self.queues[name].first + len(self.queues[name].entries)
        while True:
            every = self._hear()
            if (found := apart(every)) is not None:
                self._tell(found)
            behind = [said.rank for said in every if said.reached(name) < reached]
            if not behind:
                return
            if self.verdict is not None:
                raise self.verdict
            if time.monotonic() > deadline:
                raise PeerLostError(
                    f"rank {behind[0]} has not come to seq {reached - 1} of queue '{name}' within "
                    f"{self.timeout_s:g} s: see what it does"
                )
            time.sleep(_POLL_S)

    def _read(self, keys: list[str]) -> list[bytes]:
        """What stands under keys that other ranks set, once they have."""
        deadline = time.monotonic() + self.timeout_s
        while True:
            try:
                found: list[bytes] = self.store.multi_get(keys)
            except dist.DistStoreError:  # not yet there
                if self.verdict is not None:
                    raise self.verdict from None
                if time.monotonic() > deadline:
                    break
            except dist.DistNetworkError as error:
                raise PeerLostError(f"the ranks' store is gone ({error}): see rank 0") from None
            else:
                return found
        missing = [rank for rank, key in enumerate(keys) if not self.store.check([key])]
        raise PeerLostError(
            f"rank {missing[0] if missing else '?'} has not ended step {self.settled + 1} within "
            f"{self.timeout_s:g} s: see what it does"
        )

    def _publish(self) -> None:
        with self._lock:
            said = say(self.rank, self.settled, self.queues, ended=self.ended)
            self.store.set(self._key("said", self.rank), said)

    def _hear(self) -> list[Said]:
        keys = [self._key("said", rank) for rank in range(self.n_ranks)]
        return [hear(bytes(content)) for content in self._read(keys)]

    def _difference(self) -> str:
        """What ranks took for different collectives, once all have said what they issued."""
        deadline = time.monotonic() + _LAST_WORDS_S
        while time.monotonic() < deadline:
            if (found := apart(self._hear())) is not None:
                return found
            time.sleep(_POLL_S)
        return "their digests differ"

    def _tell(self, found: str) -> None:
        """Let all ranks know, and fail. Raises MismatchError."""
        said = f"ranks disagree: {found}"
        with suppress(RuntimeError):
            self.store.set(self._key("verdict", 0), said)
        raise self._strike(said)

    def _strike(self, said: str) -> MismatchError:
        """From now on whoever waits or issues fails."""
        verdict = MismatchError(
            f"{said}: let all ranks run the same layers in the same order, this step is void"
        )
        self.verdict = self.verdict or verdict
        for channel in self.channels:
            channel.broken = True
        for handle, _ in list(self._under_way.values()):
            handle.error = self.verdict
            handle.done.set()
        return self.verdict

    def _look_on(self) -> None:
        said = b""
        while not self._closed.wait(_PERIOD_S) and self.verdict is None:
            try:
                with self._lock:
                    now = say(self.rank, self.settled, self.queues, ended=self.ended)
                if now != said:
                    said = now
                    self._publish()
                elif self._waits_long() and (found := apart(self._hear())) is not None:
                    self._tell(found)
                self._look_for_verdict()
            except (RuntimeError, RuntimeFailedError):
                return  # what was found is told already, or the store is gone

    def _look_for_verdict(self) -> None:
        key = self._key("verdict", 0)
        if self.store.check([key]):
            self._strike(bytes(self.store.get(key)).decode(errors="replace"))

    def _waits_long(self) -> bool:
        if self.ended:
            return True
        since = (begun for _, begun in list(self._under_way.values()))
        return time.monotonic() - min(since, default=float("inf")) > _PERIOD_S

    def _explain(
        self, name: str, handle: Handle, error: BaseException
    ) -> RuntimeFailedError | None:
        """Why a collective failed, if the others say so within 2 s. Called by the waiter's thread."""
        self._under_way.pop(id(handle), None)
        deadline = time.monotonic() + _LAST_WORDS_S
        every: list[Said] = []
        with suppress(RuntimeError, RuntimeFailedError):
            self._publish()
            while time.monotonic() < deadline and self.verdict is None:
                self._look_for_verdict()
                every = self._hear()
                if (found := apart(every)) is not None:
                    self._tell(found)
                time.sleep(_PERIOD_S / 10)
        mine = self.queues[name].first + len(self.queues[name].entries)
        behind = next((said for said in every if said.reached(name) < mine), None)
        if self.verdict is not None or behind is None:
            return self.verdict
        return PeerLostError(
            f"'{handle.name}' failed ({error}): rank {behind.rank} did not come, "
            f"its last is {behind.last(name)}"
        )

    def _key(self, what: str, rank: int) -> str:
        return f"{self.prefix}/{what}/{rank}"


def open_guard(queues: dict[str, Communicator], timeout_s: float) -> Guard | None:
    """Guard these queues of all ranks of the default group; all must open theirs together.

    None if this is the only rank.
    """
    rank, n_ranks = dist.get_rank(), dist.get_world_size()
    number = next(_numbers)
    if n_ranks == 1:
        return None
    store_of: Callable[[], Any] = distributed_c10d._get_default_store  # noqa: SLF001 - torch has no public way
    store = store_of().clone()
    store.set_timeout(timedelta(seconds=_PERIOD_S))
    guard = Guard(store, rank, n_ranks, f"zerosim/guard/{number}", timeout_s)
    for name, channel in queues.items():
        guard.watch(name, channel)
    guard.start()
    return guard
