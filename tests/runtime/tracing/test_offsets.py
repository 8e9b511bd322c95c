"""Clocks that are apart by a known time: the measured offset is that, within its own error bound."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from threading import Thread, current_thread

import pytest
from torch._C._distributed_c10d import HashStore

from zerosim_runtime.records import Offset
from zerosim_runtime.tracing import offsets
from zerosim_runtime.tracing.offsets import measure

PROGRAM = Path(__file__).with_name("clock_program.py")
APART_NS = 1_000 * 10**9
AHEAD = ("unshare", "--time", "--monotonic", "1000", "--boottime", "1000", "--fork")


def asked(ahead_ns: int, monkeypatch: pytest.MonkeyPatch) -> list[tuple[Offset, ...] | None]:
    """What ranks 0, 1 and 2 get, as threads; 1 and 2 share a clock that is so far ahead."""
    store = HashStore()
    found: list[tuple[Offset, ...] | None] = [(), (), ()]

    def one(rank: int) -> None:
        ahead = ahead_ns if rank else 0
        found[rank] = measure(store, rank, 3, "first", lambda: time.perf_counter_ns() + ahead)

    def identity() -> str:
        return "there" if ahead_ns and current_thread().name != "rank-0" else "here"

    monkeypatch.setattr(offsets, "clock_identity", identity)
    threads = [Thread(target=one, args=(rank,), name=f"rank-{rank}") for rank in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def test_ranks_with_one_clock_have_no_offsets(monkeypatch: pytest.MonkeyPatch) -> None:
    assert asked(0, monkeypatch) == [None, None, None]


def test_one_rank_speaks_for_all_that_share_its_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second, third = asked(APART_NS, monkeypatch)
    assert first is not None
    assert [offset.rank for offset in first] == [1, 2]
    assert first[0].offset_ns == first[1].offset_ns
    assert abs(first[0].offset_ns - APART_NS) <= first[0].error_ns
    assert (second, third) == ((), ())


@pytest.mark.runtime
def test_the_offset_of_another_time_namespace_is_found_within_its_error_bound() -> None:
    if shutil.which("unshare") is None or subprocess.run([*AHEAD, "true"], check=False).returncode:
        pytest.skip("this machine does not let us make a time namespace")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    words = [sys.executable, str(PROGRAM)]
    with subprocess.Popen(
        [*words, "0", "0"], env=environment, stdout=subprocess.PIPE, text=True
    ) as here:
        assert here.stdout is not None
        port = here.stdout.readline().strip()
        there = subprocess.run(
            [*AHEAD, *words, "1", port],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        printed = here.stdout.read()
    assert (there.stdout.splitlines()[1:], there.returncode) == (["[]"], 0), there.stderr
    [(rank, offset_ns, error_ns)] = ast.literal_eval(printed)
    assert rank == 1
    assert abs(offset_ns - APART_NS) <= error_ns
    assert error_ns < 1_000_000
