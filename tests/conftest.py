"""What all tests share: the same random examples on every machine, golden files, a hand-checkable machine."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import settings

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    # Whoever runs the tests in the background has it ignored, and what they start would not hear Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)

GOLDEN = Path(__file__).parent / "golden"
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
)

settings.register_profile("ci", derandomize=True, max_examples=100, deadline=None, database=None)
settings.load_profile("ci")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write the golden files anew")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, Any], None]:
    """Holds a value against `golden/NAME.json`; writes the file with `--update-golden`."""

    def check(name: str, value: Any) -> None:
        path = GOLDEN / f"{name}.json"
        if request.config.getoption("--update-golden"):
            path.write_bytes(orjson.dumps(value, option=orjson.OPT_INDENT_2) + b"\n")
        assert value == orjson.loads(path.read_bytes())

    return check


@pytest.fixture
def unit() -> Callable[..., dict[str, Any]]:
    """The unit cluster: 2 ranks, 1 FLOP/s, 1 byte/s, no latency; 3 layers of 6 float32 parameters.

    A forward takes 8 s, a backward 16 s, gathering or reduce-scattering a layer 24 · 1/2 = 12 s.
    """

    def scenario(schedule: str, **options: Any) -> dict[str, Any]:
        return {
            "name": f"unit-{schedule}",
            "workload": {"model": "uniform", "layers": 3, "hidden": 2},
            "schedule": {"name": schedule, **options},
            "cluster": {
                "name": "classroom",
                "world_size": 2,
                "peak_flops": 1,
                "memory_bandwidth": 1,
                "intra_busbw": 1,
            },
            "numerics": {"dtype": "float32", "optimizer": "sgd"},
        }

    return scenario


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """The one browser of this process: its driver can be started once alone."""
    sync_api = pytest.importorskip("playwright.sync_api")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip("no chromium on this machine")
    with sync_api.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=chromium, args=ARGUMENTS)
        yield opened
        opened.close()
