"""The launcher: a real run end to end, and no process left when a rank, or the launcher, dies."""

from __future__ import annotations

import importlib.util
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from zerosim.analysis.summary import summarize
from zerosim.errors import InputError, RuntimeFailedError
from zerosim.scenario import load_scenario
from zerosim.store import load_run
from zerosim.trace import Flag, Trace
from zerosim_runtime.launch import as_real, trace
from zerosim_runtime.records import read_record

LESSON = "AG0 F0 AG1 F1 AG2 F2 B2 RS2 AG1 B1 RS1 AG0 B0 RS0 OPT"
LONG = """
import sys
from pathlib import Path
from zerosim.errors import RuntimeFailedError
from zerosim.scenario import load_scenario
from zerosim_runtime.launch import trace
try:
    trace(
        load_scenario("lesson-zero3"), nproc=int(sys.argv[1]), steps=1_000, out=Path(sys.argv[2])
    )
except RuntimeFailedError as error:
    sys.exit(str(error))
"""


@dataclass(frozen=True, slots=True)
class Running:
    """A launcher of a long run in a process of its own, with the pids of its ranks."""

    process: subprocess.Popen[str]
    pids: list[int]
    out: Path


@pytest.fixture
def running(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Running]:
    """A long run, of as many ranks as the test says, that have done a few steps."""
    n_ranks: int = request.param
    out, temporary = tmp_path / "run", tmp_path / "temporary"
    temporary.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-c", LONG, str(n_ranks), str(out)],
        env=os.environ | {"TMPDIR": str(temporary), "PYTHONPATH": os.pathsep.join(sys.path)},
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield Running(process, _pids_of(temporary, n_ranks), out)
    finally:
        process.kill()
        process.communicate()


def _pids_of(temporary: Path, n_ranks: int) -> list[int]:
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline:
        for directory in temporary.glob("zerosim-*"):
            records = [read_record(directory, rank) for rank in range(n_ranks)]
            found = [r for r in records if r is not None and len(r.losses) > 1]
            if len(found) == n_ranks:
                return [int(record.header["pid"]) for record in found]
        time.sleep(0.1)
    raise AssertionError("the ranks did not get going within 90 s")


def _all_gone(pids: list[int], within_s: float) -> bool:
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        if not any(Path(f"/proc/{pid}").exists() for pid in pids):
            return True
        time.sleep(0.1)
    return False


@pytest.mark.runtime
@pytest.mark.parametrize("running", [2], indirect=True)
def test_a_killed_rank_stops_the_others_and_what_was_recorded_is_kept(running: Running) -> None:
    killed = time.monotonic()
    os.kill(running.pids[1], signal.SIGKILL)
    _, message = running.process.communicate(timeout=30)
    assert time.monotonic() - killed < 30
    assert _all_gone(running.pids, within_s=1)
    assert running.process.returncode == 1
    assert "rank 1 was killed by SIGKILL in '" in message
    assert f"kept as the unfinished run '{running.out}'" in message
    kept = load_run(running.out)
    assert not kept.meta.finished
    assert kept.meta.quality.warnings[0].startswith("rank 1 was killed by SIGKILL in '")
    assert {window.rank for window in kept.meta.steps if window.step == 1} == {0, 1}
    assert set(kept.spans["flags"]) <= {0, int(Flag.UNFINISHED)}
    assert list((running.out.parent / "temporary").iterdir()) == []


@pytest.mark.runtime
@pytest.mark.parametrize("running", [1], indirect=True)
def test_ctrl_c_leaves_no_process_and_keeps_what_was_recorded(running: Running) -> None:
    running.process.send_signal(signal.SIGINT)
    running.process.communicate(timeout=30)
    assert _all_gone(running.pids, within_s=1)
    kept = load_run(running.out).meta
    assert not kept.finished
    assert re.match(r"stopped after \d+ of 1000 steps", kept.quality.warnings[0])


@pytest.mark.runtime
@pytest.mark.parametrize("running", [1], indirect=True)
def test_ranks_end_by_themselves_when_their_launcher_is_killed(running: Running) -> None:
    running.process.kill()
    assert _all_gone(running.pids, within_s=30)


@pytest.fixture(scope="module")
def lesson(tmp_path_factory: pytest.TempPathFactory) -> tuple[Trace, Path, list[str]]:
    """A real run of the lesson, where it was stored, and what was told on the way."""
    out, told = tmp_path_factory.mktemp("runs") / "lesson", list[str]()
    scenario = load_scenario("lesson-zero3")
    return trace(scenario, nproc=2, steps=3, out=out, progress=told.append), out, told


@pytest.mark.runtime
def test_the_lesson_runs_for_real_in_its_own_order(lesson: tuple[Trace, Path, list[str]]) -> None:
    summary = summarize(lesson[0])
    assert (summary["source"], summary["world_size"], summary["order"]) == ("measured", 2, LESSON)


@pytest.mark.runtime
def test_a_real_run_is_stored_as_it_was_returned(lesson: tuple[Trace, Path, list[str]]) -> None:
    returned, out, _ = lesson
    stored = load_run(out)
    assert stored.meta == returned.meta
    assert stored.meta.finished
    assert stored.spans.equals(returned.spans)


@pytest.mark.runtime
def test_progress_is_told_up_to_the_last_step(lesson: tuple[Trace, Path, list[str]]) -> None:
    told = lesson[2]
    assert told[0] == "starting 2 ranks"
    assert set(told[1:]) <= {"step 1 of 3", "step 2 of 3", "step 3 of 3"}


def test_real_ranks_override_the_scenarios_world_and_its_stragglers() -> None:
    scenario = load_scenario("lesson-zero3", ["stragglers=2:1.5", "jitter=0.1", "slow_links=2:0.5"])
    real = as_real(scenario, nproc=2, steps=5)
    assert (real.cluster.world_size, real.run.steps) == (2, 5)
    assert (real.run.stragglers, real.run.jitter, real.run.slow_links) == ("", 0.0, None)
    assert real.workload == scenario.workload


@pytest.mark.parametrize(
    ("words", "nproc", "backend", "message"),
    [
        ([], 0, "auto", "nproc is 0: give at least 1"),
        ([], 2, "mpi", "no backend 'mpi': known: auto, gloo, nccl, paced:400Mbit"),
        (["schedule=fsdp1"], 2, "auto", "schedule is 'fsdp1', and real ranks cannot carry it out"),
        (["hidden=200000"], 2, "auto", "2 ranks of this scenario need .* lower layers"),
    ],
)
def test_what_cannot_run_is_refused_before_anything_starts(
    words: list[str], nproc: int, backend: str, message: str, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    with pytest.raises(InputError, match=message):
        trace(load_scenario("lesson-zero3", words), nproc=nproc, backend=backend, out=out)
    assert not out.exists()


def test_without_torch_the_message_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(RuntimeFailedError, match="torch is not installed: pip install torch"):
        trace(load_scenario("lesson-zero3"), nproc=2)


def test_no_rank_starts_for_a_run_that_could_not_be_stored(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("mine")
    told: list[str] = []
    with pytest.raises(InputError, match="exists and is not a run: choose another name with -o"):
        trace(load_scenario("lesson-zero3"), nproc=2, out=tmp_path / "notes", progress=told.append)
    assert told == []


@pytest.mark.runtime
def test_resident_memory_is_noted_beside_the_ledger_if_asked_for() -> None:
    seen = trace(load_scenario("lesson-zero3", ["world_size=2"]), nproc=2, steps=1, rss=True)

    resident = seen.samples.filter(seen.samples["counter"] == "memory.rss")
    booked = seen.samples.filter(seen.samples["counter"] == "memory.allocated")
    assert sorted(set(resident["rank"])) == [0, 1]
    # Python and torch alone take more than all that a lesson books.
    assert min(resident["value"]) > 50 * 2**20 > max(booked["value"])
