"""The typed example is not only typed: it runs."""

from __future__ import annotations

import importlib.util
from pathlib import Path


def test_the_api_example_runs_as_it_is_typed() -> None:
    path = Path(__file__).with_name("api.py")
    spec = importlib.util.spec_from_file_location("api", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.use().ranks == (0, 1)
