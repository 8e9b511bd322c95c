"""The app as a whole: offline, wired, and safe to build twice."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import dash
import pytest
from dash import Dash

from zerosim.figures.palette import MEMORY, OPS
from zerosim_app.factory import create_app
from zerosim_app.shelf import Shelf

PAGES = {
    "/": {},
    "/learn/zero3": {"name": "zero3"},
    "/simulate": {},
    "/explore": {"run": "lesson-zero3"},
    "/compare": {"a": "mine", "b": "lesson-zero3"},
    "/runs": {},
    "/accuracy": {},
}


def page(path: str) -> dict[str, Any]:
    return next(p for p in dash.page_registry.values() if p["path"] == path)


def test_every_page_answers(app: Dash) -> None:
    client = app.server.test_client()
    for path in PAGES:
        assert client.get(path).status_code == 200
    assert client.get("/healthz").data == b"ok\n"


def test_the_first_bytes_ask_nothing_of_other_hosts(app: Dash) -> None:
    html = app.server.test_client().get("/").get_data(as_text=True)
    addresses = re.findall(r"""(?:src|href)=["']([^"']+)""", html)
    assert addresses
    assert [a for a in addresses if a.startswith(("http:", "https:", "//"))] == []


def test_the_palette_is_in_the_first_bytes_so_that_nothing_flashes(app: Dash) -> None:
    html = app.server.test_client().get("/").get_data(as_text=True)
    for role, swatch in OPS.items():
        assert f"--zs-op-{role}:{swatch.light};" in html
        assert f"--zs-op-{role}:{swatch.dark};" in html
    assert f"--zs-mem-gathered:{MEMORY['gathered'].light};" in html


def test_the_header_is_the_same_on_every_page(app: Dash, tree: Any) -> None:
    shell = tree(app.layout())
    assert {"nav-start", "nav-learn", "nav-explore", "nav-compare", "nav-runs"} <= shell.ids()
    assert {"theme-switch", "help-open", "help", "theme", "page"} <= shell.ids()


def test_every_callback_finds_its_parts_on_some_page(serving: Dash, tree: Any) -> None:
    shell = tree(serving.layout()).ids()
    on_page = {
        path: shell | tree(page(path)["layout"](**query)).ids() for path, query in PAGES.items()
    }
    for callback in _dependencies(serving):
        parts = callback["inputs"] + callback["state"]
        # What matches a pattern of ids may match none.
        used = {part["id"] for part in parts if not part["id"].startswith("{")}
        used |= {
            re.sub(r"\..*|@.*", "", o) for o in re.findall(r"[\w-]+\.[\w@-]+", callback["output"])
        }
        used -= {"_pages_location", "_pages_content", "_pages_store", "_pages_dummy"}
        assert any(used <= ids for ids in on_page.values()), used


def _dependencies(app: Dash) -> list[dict[str, Any]]:
    answer = app.server.test_client().get("/_dash-dependencies").get_data(as_text=True)
    found: list[dict[str, Any]] = json.loads(answer)
    return found


def test_ids_are_unique_on_every_page(serving: Dash, tree: Any) -> None:
    shell = [p.id for p in tree(serving.layout()).parts if getattr(p, "id", None)]
    for path, query in PAGES.items():
        parts = tree(page(path)["layout"](**query)).parts
        ids = shell + [str(p.id) for p in parts if getattr(p, "id", None)]
        assert len(ids) == len(set(ids)), path


def test_two_apps_stand_in_one_process(shelf: Shelf, tmp_path: Path) -> None:
    apps = [create_app(shelf.library, examples=shelf.examples), create_app(tmp_path)]
    for app in apps:
        assert app.server.test_client().get("/").status_code == 200
    assert len(_dependencies(apps[0])) == len(_dependencies(apps[1]))


def test_the_title_never_says_updating(app: Dash) -> None:
    assert not app.config.update_title


@pytest.mark.parametrize("path", list(PAGES))
def test_each_page_has_a_title_of_its_own(app: Dash, path: str) -> None:
    del app
    title = page(path)["title"]
    assert title == "zerosim" or title.endswith(" · zerosim")
