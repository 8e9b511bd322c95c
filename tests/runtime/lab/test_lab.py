"""A lab end to end: a run with what its links counted, and nothing left of it however it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from zerosim.errors import RuntimeFailedError
from zerosim.scenario import Scenario, cluster_of, load_scenario, run
from zerosim.store import load_run
from zerosim.trace import Trace
from zerosim.units import read_rate
from zerosim_runtime.lab import namespaces
from zerosim_runtime.lab.commands import LabError, call, check_tools
from zerosim_runtime.lab.counters import Count, read_counts
from zerosim_runtime.lab.links import drop_link, open_lab, restore_link
from zerosim_runtime.lab.run import run_lab
from zerosim_runtime.lab.shape import Shape
from zerosim_runtime.records import read_record

LONG = """
import sys
from pathlib import Path
from zerosim.errors import RuntimeFailedError
from zerosim.scenario import load_scenario
from zerosim_runtime.lab.run import run_lab
from zerosim_runtime.lab.shape import Shape
try:
    run_lab(load_scenario("lesson-zero3", ["hidden=64"]), Shape(2, 1, 25e6), steps=1_000, out=Path(sys.argv[1]))
except RuntimeFailedError as error:
    sys.exit(str(error))
"""


@pytest.fixture(scope="module")
def lab_run(lab_possible: None, tmp_path_factory: pytest.TempPathFactory) -> tuple[Trace, Path]:
    """The lesson on two nodes of two ranks, and where it was stored."""
    del lab_possible
    out = tmp_path_factory.mktemp("runs") / "lesson"
    shape = Shape(2, 2, read_rate("400Mbit"))
    return run_lab(load_scenario("lesson-zero3"), shape, steps=2, out=out), out


@pytest.mark.runtime
def test_the_links_counted_what_the_collectives_of_the_run_move(
    lab_run: tuple[Trace, Path],
) -> None:
    for link in lab_run[0].provenance["links"]:
        assert link["expected_sent"] == link["expected_inside"] > 10e6
        assert link["sent_payload"] == pytest.approx(link["expected_sent"], rel=0.01)
        assert link["received_payload"] == pytest.approx(link["expected_sent"], rel=0.01)
        assert link["inside_payload"] == pytest.approx(link["expected_inside"], rel=0.01)
        assert link["left_out"] == 0


@pytest.mark.runtime
def test_a_run_of_the_lab_is_a_measured_run_like_every_other(lab_run: tuple[Trace, Path]) -> None:
    stored = load_run(lab_run[1])
    assert stored.meta == lab_run[0].meta
    assert (stored.meta.source, stored.meta.world_size, stored.meta.finished) == (
        "measured",
        4,
        True,
    )
    assert stored.provenance["lab"]["nodes"] == 2
    counters = stored.samples.filter(pl.col("counter") == "link.node-1.sent")
    assert set(counters["rank"]) == {2}
    assert max(counters["value"].to_list()) <= 1.5 * 50e6


@pytest.mark.runtime
def test_its_scenario_simulates_the_same_links(lab_run: tuple[Trace, Path]) -> None:
    scenario = Scenario.from_dict(dict(lab_run[0].meta.scenario or {}))
    cluster = cluster_of(scenario)
    assert (cluster.n_nodes, cluster.ranks_per_node) == (2, 2)
    assert cluster.inter.busbw == pytest.approx(50e6 * 1448 / 1514)
    assert run(scenario).meta.world_size == 4


@dataclass(frozen=True, slots=True)
class Running:
    """A lab in a process of its own: its namespaces, and the pids of ranks and holders."""

    process: subprocess.Popen[str]
    ranks: list[int]
    holders: list[int]
    namespaces: set[str]
    out: Path


@pytest.fixture
def running(lab_possible: None, tmp_path: Path) -> Iterator[Running]:
    """A long run in a lab, whose ranks have done a few steps."""
    del lab_possible
    out, temporary = tmp_path / "run", tmp_path / "temporary"
    temporary.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-c", LONG, str(out)],
        env=os.environ | {"TMPDIR": str(temporary), "PYTHONPATH": os.pathsep.join(sys.path)},
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        ranks = _ranks_of(temporary)
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        holders = [int(pid) for pid in children if _name(int(pid)) == "cat"]
        spaces = {str(Path(f"/proc/{pid}/ns/net").readlink()) for pid in holders}
        yield Running(process, ranks, holders, spaces, out)
    finally:
        process.kill()
        process.communicate()


def _ranks_of(temporary: Path) -> list[int]:
    deadline = time.monotonic() + 180
    while time.monotonic() < deadline:
        for directory in temporary.glob("zerosim-*"):
            records = [read_record(directory, rank) for rank in range(2)]
            found = [r for r in records if r is not None and len(r.losses) > 1]
            if len(found) == 2:
                return [int(record.header["pid"]) for record in found]
        time.sleep(0.1)
    raise AssertionError("the ranks did not get going within 180 s")


def _name(pid: int) -> str:
    return Path(f"/proc/{pid}/comm").read_text().strip()


def _all_gone(running: Running, within_s: float) -> bool:
    """Whether ranks, holders, and everything in the namespaces of the lab have ended."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        alive = [p for p in (*running.ranks, *running.holders) if Path(f"/proc/{p}").exists()]
        if not alive and not running.namespaces & _all_namespaces():
            return True
        time.sleep(0.1)
    return False


def _all_namespaces() -> set[str]:
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            found.add(str((process / "ns/net").readlink()))
        except OSError:
            continue
    return found


@pytest.mark.runtime
def test_nothing_is_left_when_the_lab_is_killed(running: Running) -> None:
    assert len(running.holders) == 3
    assert len(running.namespaces) == 3
    running.process.send_signal(signal.SIGKILL)
    assert _all_gone(running, within_s=30)


@pytest.mark.runtime
def test_a_killed_rank_of_one_node_stops_the_other_and_is_named(running: Running) -> None:
    killed = time.monotonic()
    os.kill(running.ranks[1], signal.SIGKILL)
    _, message = running.process.communicate(timeout=30)
    assert time.monotonic() - killed < 30
    assert _all_gone(running, within_s=1)
    assert "rank 1 was killed by SIGKILL in '" in message
    kept = load_run(running.out)
    assert not kept.meta.finished
    assert kept.provenance["links"][0]["sent_payload"] > 0


@pytest.mark.runtime
def test_a_link_that_is_dropped_passes_nothing_until_it_is_restored(lab_possible: None) -> None:
    del lab_possible
    with open_lab(Shape(2, 1, read_rate("100Mbit"))) as lab:

        def received() -> int:
            """Packets that node 1 gets while node 0 calls it."""
            before = read_counts(lab.nodes[1]).received.packets
            send = "import socket; socket.socket(type=2).sendto(b'x', ('10.0.0.2', 9))"
            for _ in range(5):
                call([*lab.nodes[0].prefix, sys.executable, "-c", send])
            return read_counts(lab.nodes[1]).received.packets - before

        assert received() > 0
        drop_link(lab, 1)
        assert received() == 0
        restore_link(lab, 1)
        assert received() > 0


def test_a_count_without_headers_is_what_the_program_sent() -> None:
    assert Count(1514 * 10, 10).payload == 14480
    assert Count(1000, 10).since(Count(400, 4)) == Count(600, 6)


def test_a_missing_tool_is_named_with_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(LabError, match="'ip' is not installed, the lab needs it: install iproute2"):
        check_tools()


def test_without_the_right_to_namespaces_the_reason_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for tool in ("ip", "tc", "unshare", "nsenter"):
        path = tmp_path / tool
        path.write_text("#!/bin/sh\necho 'unshare failed: Operation not permitted' >&2\nexit 1\n")
        path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with (
        pytest.raises(RuntimeFailedError, match=r"no network namespace can be made \(.*permitted"),
        namespaces.open_namespaces(2),
    ):
        pass


@pytest.mark.parametrize("delay", [1e-3])
def test_a_delay_that_the_kernel_cannot_add_is_refused(lab_possible: None, delay: float) -> None:
    del lab_possible
    shape: dict[str, Any] = {"nodes": 2, "ranks_per_node": 1, "inter": 25e6}
    try:
        with open_lab(Shape(**shape, latency_s=delay)):
            pass
    except LabError as error:
        assert "leave --latency out, or load sch_netem" in str(error)  # noqa: PT017 - both are right
