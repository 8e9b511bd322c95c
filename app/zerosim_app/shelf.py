"""The runs on show: the user's library, with the example runs of the package beside it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import flask

from zerosim.analysis.summary import summarize
from zerosim.errors import RunError
from zerosim.store import StoredRun, find_run, list_runs, load_run
from zerosim.trace import Meta, Trace

_EXAMPLE: Final = "example:"
_CONFIG_KEY: Final = "ZEROSIM_SHELF"


@dataclass(frozen=True, slots=True)
class Entry:
    """One run on show. `id` is what stands in addresses; an example cannot be changed."""

    id: str
    stored: StoredRun
    is_example: bool

    @property
    def meta(self) -> Meta | None:
        """What the run says of itself; None if it cannot be read."""
        return self.stored.meta


@dataclass(frozen=True, slots=True)
class Shelf:
    """Two directories of runs: `library` is the user's, `examples` is read-only."""

    library: Path
    examples: Path

    def entries(self) -> tuple[Entry, ...]:
        """The user's runs, then the examples; an example whose name is taken keeps its prefix."""
        own = tuple(Entry(run.id, run, is_example=False) for run in list_runs(self.library))
        taken = {entry.id for entry in own}
        shipped = tuple(
            Entry(f"{_EXAMPLE}{run.id}" if run.id in taken else run.id, run, is_example=True)
            for run in list_runs(self.examples)
        )
        return own + shipped

    def path_of(self, run_id: str) -> Path:
        """The directory of a run: the user's own, else the example of that name. Raises RunError."""
        if run_id.startswith(_EXAMPLE):
            return find_run(self.examples, run_id.removeprefix(_EXAMPLE))
        try:
            return find_run(self.library, run_id)
        except RunError as own_missing:
            try:
                return find_run(self.examples, run_id)
            except RunError:
                raise own_missing from None

    def own_path(self, run_id: str) -> Path:
        """The directory of a run that may be renamed or deleted. Raises RunError for an example."""
        path = self.path_of(run_id)
        if path.parent == self.examples:
            raise RunError(f"'{run_id}' is an example that ships with zerosim: it stays as it is")
        return path

    def load(self, run_id: str) -> Trace:
        """A run by its id; the last few are kept in memory. Raises RunError."""
        path = self.path_of(run_id)
        return _load(path, (path / "run.json").stat().st_mtime_ns)

    def summary(self, run_id: str) -> dict[str, Any]:
        """The figures of a run (`zerosim show`), kept as long as the run. Raises RunError."""
        path = self.path_of(run_id)
        return _summary(path, (path / "run.json").stat().st_mtime_ns)


@lru_cache(maxsize=6)
def _load(path: Path, _changed_ns: int) -> Trace:
    return load_run(path)


@lru_cache(maxsize=64)
def _summary(path: Path, changed_ns: int) -> dict[str, Any]:
    return summarize(_load(path, changed_ns))


def put_shelf(server: flask.Flask, shelf: Shelf) -> None:
    """Give a server its shelf, so that several apps in one process keep theirs apart."""
    server.config[_CONFIG_KEY] = shelf


def shelf() -> Shelf:
    """The shelf of the app that answers the current request."""
    found: Shelf = flask.current_app.config[_CONFIG_KEY]
    return found
