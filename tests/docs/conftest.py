"""What the tests of docs/ share: where the pages are, and the switch that writes generated ones."""

from __future__ import annotations

from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-docs", action="store_true", help="write generated pages anew")


@pytest.fixture
def docs() -> Path:
    return Path(__file__).parents[2] / "docs"


@pytest.fixture
def update_docs(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--update-docs", default=False))
