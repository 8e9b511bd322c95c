"""Faults planted into real runs end soon, name rank, op and number, keep the run, and leave nobody."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from benchmarks.faults.cases import FAULTS
from benchmarks.faults.strike import Ended, strike

CHEAP = ("hangs", "shapes", "Ctrl-C")
"""One of each kind; `python -m benchmarks.faults` plants all twenty."""
TIMEOUT_S = 6.0
"""For ranks that hang."""


@pytest.fixture(scope="module")
def ended() -> dict[str, Ended]:
    """All that is cheap, all at once."""
    chosen = [fault for fault in FAULTS if fault.name in CHEAP]
    with ThreadPoolExecutor(4) as pool:
        return {e.fault.name: e for e in pool.map(partial(strike, timeout_s=TIMEOUT_S), chosen)}


@pytest.mark.runtime
@pytest.mark.quiet
@pytest.mark.parametrize("name", CHEAP)
def test_a_fault_ends_as_it_should(name: str, ended: dict[str, Ended]) -> None:
    how = ended[name]
    assert how.problem == "", how.sentence
    assert how.seconds < 30
    assert how.left == ()
    assert how.litter == ()
