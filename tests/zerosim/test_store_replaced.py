"""A run that somebody writes while it is read is read as one of both, never as a mixture."""

from __future__ import annotations

from pathlib import Path

import pytest

from zerosim import store
from zerosim.errors import RunError
from zerosim.scenario import load_scenario, run
from zerosim.store import load_run, save_run
from zerosim.trace import Meta, Trace


@pytest.fixture(scope="module")
def trace() -> Trace:
    return run(load_scenario("lesson-zero3"))


@pytest.fixture
def stored(trace: Trace, tmp_path: Path) -> Path:
    return save_run(trace, tmp_path / "lesson")


def test_a_run_that_is_replaced_while_it_is_read_is_read_again(
    trace: Trace, stored: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = run(load_scenario("lesson-ddp"))
    read, writes = store.load_meta, iter([other, trace, other])

    def replaced(path: Path) -> Meta:
        meta = read(path)
        for newer in writes:
            save_run(newer, path)
            break
        return meta

    monkeypatch.setattr(store, "load_meta", replaced)
    again = load_run(stored)
    assert again.meta == other.meta
    assert again.spans.equals(other.spans)


def test_a_run_that_never_stands_still_is_given_up(
    trace: Trace, stored: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = store.load_meta

    def replaced(path: Path) -> Meta:
        save_run(trace, path)
        return read(path)

    monkeypatch.setattr(store, "load_meta", replaced)
    with pytest.raises(RunError, match="is written again and again: read it later"):
        load_run(stored)
