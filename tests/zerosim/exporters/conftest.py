"""What tests of the exporters share: simulated runs, and one in which everything is odd."""

from __future__ import annotations

from pathlib import Path

import pytest

from zerosim.importers import read
from zerosim.scenario import load_scenario, run
from zerosim.trace import Clock, Flag, Group, Meta, StepWindow, Trace, make_trace

SHARED = Path(__file__).parents[4] / "shared" / "traces"
HOSTILE = "<script>alert(1)</script>\"'\n\u2028</script>"


@pytest.fixture(scope="session")
def lesson() -> Trace:
    """Two steps of ZeRO-3 on three ranks, simulated."""
    return run(load_scenario("lesson-zero3", ["steps=2"]))


@pytest.fixture(scope="session")
def gloo() -> Trace:
    """A real run of DDP on two ranks."""
    return read([Path(__file__).parents[2] / "golden" / "gloo_ddp"])


@pytest.fixture
def odd() -> Trace:
    """Epoch times, spans that cross each other on a stream, nothing known, and a name that is HTML."""
    t = 1_759_300_074_123_456_789
    return make_trace(
        {
            "rank": [5, 5, 5, 5, 5],
            "stream": ["stream 20", "stream 20", "stream 20", "host", "stream 7"],
            "kind": ["all_gather", "all_gather", "memory_op", "host", "wait"],
            "name": ["AG", HOSTILE, "move", "aten::mm", "wait"],
            "issued_ns": [t - 1, None, t + 9, None, None],
            "start_ns": [t, t + 1, t + 1, t, t],
            "end_ns": [t + 10, t + 21, t + 1, t + 5, t + 7],
            "collective": [0, None, None, None, None],
            "group": ["0", "0", None, None, None],
            "elements": [7, None, None, None, None],
            "nbytes": [28, None, None, None, None],
            "dtype": ["float32", "Float8_e4m3fn", None, None, None],
            "flags": [0, int(Flag.BEFORE_WINDOW), int(Flag.UNTIMED), 0, 0],
        },
        Meta(
            name="odd",
            source="imported",
            world_size=64,
            device="H100",
            clock=Clock(aligned=False),
            groups=(Group("0", 40, tuple(range(40))), Group("1", 2)),
            steps=(StepWindow(5, 3, t - 5, t + 30),),
        ),
        {
            "time_ns": [t + 3, t + 3, t + 4],
            "rank": [5, 5, 5],
            "counter": ["memory.allocated", "memory.allocated", "link.nic"],
            "value": [2**50, 1, -3],
        },
    )


@pytest.fixture
def shared() -> Path:
    """The folder of real traces."""
    if not SHARED.is_dir():
        pytest.skip("needs the shared traces")
    return SHARED
