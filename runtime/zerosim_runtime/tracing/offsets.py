"""How far the clocks of a program's ranks are apart, told through its own key-value store.

The store is there whatever the backend, and nothing of the program's collectives is touched. One rank
speaks for all that share its clock. Ping-pong with fresh keys: a key that is used twice gives its old
value at once. The round with the shortest way counts; it is wrong by half of its length at most.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final

import orjson

from zerosim_runtime.clock import clock_identity
from zerosim_runtime.records import Offset

ROUNDS: Final = 200
_PATIENCE_S: Final = 10.0
"""How long a rank waits for one answer; then it goes on without the offsets."""


def measure(
    store: Any,  # noqa: ANN401 - a torch Store
    rank: int,
    n_ranks: int,
    name: str,
    now: Callable[[], int] = time.perf_counter_ns,
) -> tuple[Offset, ...] | None:
    """Rank 0 gets the offset of every rank with another clock, the others get nothing; None: one clock.

    Every rank must call it with the same `name`, used once. Raises RuntimeError (torch's) if another rank
    does not answer.
    """
    usual = store.timeout
    store.set_timeout(timedelta(seconds=_PATIENCE_S))
    try:
        return _measure(store, rank, n_ranks, name, now)
    finally:
        store.set_timeout(usual)


def _measure(
    store: Any,  # noqa: ANN401 - a Store
    rank: int,
    n_ranks: int,
    name: str,
    now: Callable[[], int],
) -> tuple[Offset, ...] | None:
    if rank:
        store.set(f"{name}/clock/{rank}", clock_identity())
        speakers: dict[str, list[int]] = orjson.loads(store.get(f"{name}/speakers"))
        if str(rank) in speakers:
            _answer(store, f"{name}/{rank}", now)
        return () if speakers else None
    speakers_of = _speakers(store, n_ranks, name)
    store.set(f"{name}/speakers", orjson.dumps(speakers_of, option=orjson.OPT_NON_STR_KEYS))
    if not speakers_of:
        return None
    return tuple(
        Offset(member, found.at_ns, found.offset_ns, found.error_ns)
        for speaker, members in speakers_of.items()
        for found in [_ask(store, f"{name}/{speaker}", speaker, now)]
        for member in members
    )


def _speakers(store: Any, n_ranks: int, name: str) -> dict[int, list[int]]:  # noqa: ANN401 - a Store
    """The first rank of each clock that is not rank 0's, and all ranks that share it."""
    members: dict[str, list[int]] = {}
    for rank in range(1, n_ranks):
        identity = bytes(store.get(f"{name}/clock/{rank}")).decode()
        members.setdefault(identity, []).append(rank)
    members.pop(clock_identity(), None)
    return {ranks[0]: ranks for ranks in members.values()}


def _answer(store: Any, name: str, now: Callable[[], int]) -> None:  # noqa: ANN401 - a Store
    for turn in range(ROUNDS):
        store.get(f"{name}/{turn}/ping")
        store.set(f"{name}/{turn}/pong", str(now()))


def _ask(store: Any, name: str, rank: int, now: Callable[[], int]) -> Offset:  # noqa: ANN401 - a Store
    rounds = (_round(store, f"{name}/{turn}", rank, now) for turn in range(ROUNDS))
    return min(rounds, key=lambda offset: offset.error_ns)


def _round(store: Any, name: str, rank: int, now: Callable[[], int]) -> Offset:  # noqa: ANN401 - a Store
    before = now()
    store.set(f"{name}/ping", "")
    there = int(store.get(f"{name}/pong"))
    after = now()
    middle = (before + after) // 2
    return Offset(rank, middle, there - middle, (after - before + 1) // 2)
