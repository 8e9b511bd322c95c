"""Whether this machine can be a lab, asked once."""

from __future__ import annotations

import pytest

from zerosim_runtime.lab.check import look


@pytest.fixture(scope="session")
def lab_possible() -> None:
    """Skips where no network namespace can be made, with the reason."""
    found = look()
    if found.why is not None:
        pytest.skip(f"no lab on this machine: {found.why}")
