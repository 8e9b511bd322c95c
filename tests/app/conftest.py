"""A dashboard over a scratch library: one run of the user's own, and two examples beside it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from dash import Dash
from dash.development.base_component import Component

from zerosim.scenario import load_scenario, run
from zerosim.store import save_run
from zerosim_app.factory import create_app
from zerosim_app.shelf import Shelf


@pytest.fixture(scope="session", name="kept")
def _kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`library` and `examples`, made once; not to be changed."""
    root = tmp_path_factory.mktemp("kept")
    save_run(run(load_scenario("lesson-zero2")), root / "library" / "mine")
    for name in ("lesson-zero3", "lesson-ddp"):
        save_run(run(load_scenario(name)), root / "examples" / name)
    return root


@pytest.fixture
def shelf(kept: Path, tmp_path: Path) -> Shelf:
    """A copy that a test may change."""
    shutil.copytree(kept, tmp_path / "kept")
    return Shelf(tmp_path / "kept" / "library", tmp_path / "kept" / "examples")


@pytest.fixture
def app(shelf: Shelf) -> Dash:
    """The dashboard over `shelf`."""
    return create_app(shelf.library, examples=shelf.examples)


@pytest.fixture
def serving(app: Dash) -> Iterator[Dash]:
    """The same, while it answers a request: what callbacks see."""
    with app.server.test_request_context("/"):
        yield app


def _walk(node: Any) -> Iterator[Component]:
    if isinstance(node, Component):
        yield node
        yield from _walk(getattr(node, "children", None))
    elif isinstance(node, list | tuple):
        for child in node:
            yield from _walk(child)


class Tree:
    """A component tree, asked for its parts."""

    def __init__(self, root: Any) -> None:
        self.parts = list(_walk(root))

    @property
    def text(self) -> str:
        """All its words, in order."""
        words: list[str] = []
        for part in self.parts:
            children = getattr(part, "children", None)
            told = children if isinstance(children, list | tuple) else [children]
            words += [str(child) for child in told if isinstance(child, str | int | float)]
        return " ".join(words)

    def ids(self) -> set[str]:
        """The ids of its parts."""
        ids = (getattr(part, "id", None) for part in self.parts)
        return {id_ for id_ in ids if isinstance(id_, str)}

    def named(self, look: str) -> list[Component]:
        """The parts whose class list has `look`."""
        return [p for p in self.parts if look in str(getattr(p, "className", "")).split()]

    def by_id(self, id_: str) -> Component:
        """The part with an id."""
        return next(p for p in self.parts if getattr(p, "id", None) == id_)

    def hrefs(self) -> list[str]:
        """Where its links go."""
        return [href for p in self.parts if (href := getattr(p, "href", None))]


@pytest.fixture
def tree() -> type[Tree]:
    """`tree(component)` to look into what a page returned."""
    return Tree
