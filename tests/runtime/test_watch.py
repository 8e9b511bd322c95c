"""Ranks know whether their launcher lives, and stop when told."""

from __future__ import annotations

import fcntl
import signal
from pathlib import Path

import pytest

from zerosim_runtime.watch import Terminated, launcher_lives, raise_terminated


def test_a_held_lock_is_a_living_launcher(tmp_path: Path) -> None:
    with (tmp_path / "launcher.lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert launcher_lives(tmp_path)
        fcntl.flock(lock, fcntl.LOCK_UN)
        assert not launcher_lives(tmp_path)


def test_a_directory_that_is_gone_has_no_launcher(tmp_path: Path) -> None:
    assert not launcher_lives(tmp_path / "gone")


def test_a_signal_becomes_an_exception_that_no_except_exception_swallows() -> None:
    before = signal.getsignal(signal.SIGTERM)
    try:
        with pytest.raises(Terminated):
            raise_terminated(15, None)
    finally:
        # A rank ignores the next one; whoever tests it, and its children, must not.
        signal.signal(signal.SIGTERM, before)
    assert not issubclass(Terminated, Exception)
