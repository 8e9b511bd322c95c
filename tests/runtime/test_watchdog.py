"""Who waits for whom is read from rings; slow is not hung, and what is not certain is not said."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from zerosim_runtime.disagreement import disagreement
from zerosim_runtime.records import NOW
from zerosim_runtime.ring import Ring, open_ring
from zerosim_runtime.watchdog import Watchdog, last_collective

T = 20.0


@dataclass
class Clock:
    seconds: float = 0.0

    def __call__(self) -> float:
        return self.seconds


@dataclass
class Watched:
    """Two ranks (this process, twice), their rings, and a watchdog with a clock of its own."""

    directory: Path
    strict: bool = False
    clock: Clock = field(default_factory=Clock)
    rings: list[Ring] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rings = [open_ring(self.directory, rank) for rank in range(2)]
        self.dog = Watchdog(self.directory, 2, T, strict=self.strict, now=self.clock)

    def after(self, seconds: float) -> str | None:
        """The reason that the watchdog gives so much later, if any."""
        self.dog.look()
        self.clock.seconds += seconds
        verdict = self.dog.look()
        return None if verdict is None else verdict.reason


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    return Watched(tmp_path)


@pytest.fixture
def strict(tmp_path: Path) -> Watched:
    return Watched(tmp_path, strict=True)


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    yield process
    process.kill()
    process.wait()


def _issue(ring: Ring, seq: int, unit: str, *, ended: bool, elements: int = 8) -> None:
    number = ring.issue("dp", seq, "all_gather", unit, 1 + seq, elements)
    if ended:
        ring.end(number, 100 + seq)


def test_a_rank_for_which_another_waits_is_named_with_op_and_number(watched: Watched) -> None:
    _issue(watched.rings[0], 0, "a", ended=True)
    _issue(watched.rings[1], 0, "a", ended=True)
    _issue(watched.rings[0], 1, "b", ended=False)

    reason = watched.after(T)

    assert reason is not None
    assert reason.startswith("rank 1 hangs")
    assert "its last is 'AGa' (seq 0 of group 'dp')" in reason
    assert reason.endswith("and rank 0 waits in 'AGb' (seq 1 of group 'dp')")


def test_nobody_is_judged_while_nobody_waits(watched: Watched) -> None:
    _issue(watched.rings[0], 0, "a", ended=True)
    _issue(watched.rings[1], 0, "a", ended=True)
    assert watched.after(1000) is None


def test_nobody_is_judged_before_its_time(watched: Watched) -> None:
    _issue(watched.rings[0], 0, "a", ended=False)
    assert watched.after(T - 1) is None


def test_a_slow_rank_that_beats_moves_on(watched: Watched) -> None:
    _issue(watched.rings[0], 0, "a", ended=False)
    _issue(watched.rings[1], 0, "z", ended=True)
    for second in range(5):
        watched.rings[1].beat(second + 1)
        assert watched.after(T - 1) is None


def test_a_slow_rank_whose_op_changes_moves_on(watched: Watched) -> None:
    _issue(watched.rings[0], 1, "a", ended=False)
    _issue(watched.rings[1], 0, "z", ended=True)
    for op in range(5):
        (watched.directory / "rank-1.now").write_bytes(NOW.pack(op, op))
        assert watched.after(T - 1) is None


def test_a_rank_that_never_came_is_named(tmp_path: Path) -> None:
    watched = Watched(tmp_path)
    (tmp_path / "rank-1.ring").unlink()
    watched.rings[0].issue("everyone", 0, "barrier", "init_process_group", 1)

    assert watched.after(T) == (
        "rank 1 has not joined and is not there: nothing of it has moved for 20 s, and rank 0 waits in "
        "'barrier init_process_group' (seq 0 of group 'everyone')"
    )


def test_ranks_that_wait_in_different_collectives_are_told_apart(watched: Watched) -> None:
    _issue(watched.rings[0], 0, "a", ended=False)
    _issue(watched.rings[1], 0, "b", ended=False)
    assert watched.after(T) == (
        "ranks disagree: rank 0 issued 'AGa' and rank 1 'AGb' as seq 0 of group 'dp'"
    )


def test_when_all_wait_in_one_collective_nothing_arrives(watched: Watched) -> None:
    for ring in watched.rings:
        _issue(ring, 3, "a", ended=False)
    assert watched.after(T) == (
        "nothing has arrived for 20 s, the network is down or another host's rank is lost: "
        "rank 0 in 'AGa' (seq 3 of group 'dp'), rank 1 in 'AGa' (seq 3 of group 'dp')"
    )


def test_a_rank_whose_collective_ended_for_all_others_does_not_hang_but_hears_nothing(
    strict: Watched,
) -> None:
    _issue(strict.rings[0], 0, "a", ended=True)
    _issue(strict.rings[1], 0, "a", ended=False)
    _issue(strict.rings[0], 1, "b", ended=False)

    reason = strict.after(T)

    assert reason is not None
    assert reason.startswith(f"nothing has arrived for {T:g} s, the network is down")
    assert "rank 0 in 'AGb' (seq 1 of group 'dp')" in reason
    assert "rank 1 in 'AGa' (seq 0 of group 'dp')" in reason


def test_a_reduce_scatter_of_a_program_may_have_ended_though_nobody_says_so(
    watched: Watched,
) -> None:
    for ring in watched.rings:
        ring.issue("dp", 0, "reduce_scatter", "a", 1, 8)
    assert watched.after(1000) is None


def test_who_is_behind_is_named_behind_reduce_scatters_without_an_end(watched: Watched) -> None:
    for ring in watched.rings:
        ring.issue("rs", 0, "reduce_scatter", "a", 1, 8)
        _issue(ring, 0, "a", ended=True)
    _issue(watched.rings[0], 1, "b", ended=False)
    reason = watched.after(T)
    assert reason is not None
    assert reason.startswith("rank 1 hangs")
    assert reason.endswith(
        "its last is 'AGa' (seq 0 of group 'dp'), and rank 0 waits in 'AGb' (seq 1 of group 'dp')"
    )


def test_a_stopped_rank_is_judged_even_if_nobody_waits(
    tmp_path: Path, sleeper: subprocess.Popen[bytes]
) -> None:
    watched = Watched(tmp_path)
    _issue(watched.rings[0], 0, "a", ended=True)
    _pretend(tmp_path, 1, sleeper.pid)
    os.kill(sleeper.pid, signal.SIGSTOP)
    os.waitid(os.P_PID, sleeper.pid, os.WSTOPPED | os.WNOWAIT)

    assert watched.after(T) == "rank 1 is stopped by a signal: nothing of it has moved for 20 s"


def _pretend(directory: Path, rank: int, pid: int) -> None:
    """The ring says that its rank is another process."""
    path = directory / f"rank-{rank}.ring"
    content = bytearray(path.read_bytes())
    content[-576:-568] = pid.to_bytes(8, "little")
    path.write_bytes(content)


def test_where_units_are_certain_ranks_that_disagree_are_told_at_the_second_look(
    strict: Watched,
) -> None:
    _issue(strict.rings[0], 0, "a", ended=True)
    _issue(strict.rings[1], 0, "b", ended=True)
    assert strict.dog.look() is None
    verdict = strict.dog.look()
    assert verdict is not None
    assert verdict.ranks == (0, 1)


def test_where_units_are_a_guess_ranks_that_move_on_may_disagree(watched: Watched) -> None:
    _issue(watched.rings[0], 0, "a", ended=True)
    _issue(watched.rings[1], 0, "b", ended=True)
    assert watched.after(1000) is None


def test_a_collective_of_other_size_is_told_with_both_sizes(watched: Watched) -> None:
    _issue(watched.rings[0], 0, "a", ended=False, elements=8)
    _issue(watched.rings[1], 0, "a", ended=False, elements=6)
    found = disagreement(watched.directory, 2)
    assert found is not None
    assert found.reason == (
        "ranks disagree: rank 0 issued 'AGa' of 8 elements and rank 1 'AGa' of 6 "
        "as seq 0 of group 'dp'"
    )


def test_what_a_rank_was_in_is_the_oldest_that_has_not_ended(watched: Watched) -> None:
    _issue(watched.rings[0], 0, "a", ended=True)
    _issue(watched.rings[0], 1, "b", ended=False)
    _issue(watched.rings[0], 2, "c", ended=False)
    last = last_collective(watched.directory, 0)
    assert last is not None
    assert last.place == "'AGb' (seq 1 of group 'dp')"
    assert last_collective(watched.directory, 1) is None
