"""The timeline's frame: what the browser's code looks for is there, and it can be used without a mouse."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from dash import Dash
from dash.development.base_component import Component

from zerosim_app.components import timeline as module
from zerosim_app.components.timeline import Options, RunUrl, config, register, timeline

ASSETS = Path(module.__file__).parents[1] / "assets"


def parts_of(component: Component) -> Iterator[Component]:
    yield component
    for child in component._traverse():
        if isinstance(child, Component):
            yield child


def props(component: Component) -> dict[str, Any]:
    found: dict[str, Any] = component.to_plotly_json()["props"]
    return found


def marked(component: Component, attribute: str) -> set[str]:
    return {props(part)[attribute] for part in parts_of(component) if attribute in props(part)}


def test_the_config_stands_in_the_store_and_in_the_page() -> None:
    tree = timeline("tl", [RunUrl("a")])
    expected = config("tl", [RunUrl("a")])
    stores = {props(p)["id"]: props(p) for p in parts_of(tree) if props(p).get("id")}
    assert stores["tl-cfg"]["data"] == expected
    assert json.loads(stores["tl-root"]["data-cfg"]) == expected
    assert {"tl-view", "tl-sel"} <= set(stores)


def test_the_config_stays_small() -> None:
    runs = [RunUrl("a" * 100, "b" * 100), RunUrl("c" * 100)]
    assert len(json.dumps(config("tl", runs))) < 10_000


@pytest.mark.parametrize(
    ("run", "url"),
    [
        (RunUrl("gpt2"), "/api/runs/gpt2/timeline.json"),
        (RunUrl("a b/c?d"), "/api/runs/a%20b%2Fc%3Fd/timeline.json"),
    ],
)
def test_addresses_of_runs_are_quoted(run: RunUrl, url: str) -> None:
    assert run.url == url


def test_the_browsers_code_finds_every_part_it_looks_for() -> None:
    tree = timeline("tl", [RunUrl("a"), RunUrl("b")])
    assert {"stage", "legend", "live", "now", "problem"} <= marked(tree, "data-part")
    assert marked(tree, "data-choice") == {"speed", "align", "scale"}


def test_every_button_does_something() -> None:
    keys = (ASSETS / "25_zs_keys.mjs").read_text()
    acts = marked(timeline("tl", [RunUrl("a")]), "data-act")
    assert acts == {"fit", "whole", "in", "out", "ranks", "memory", "play", "png"}
    for act in acts:
        assert f"  {act}: " in keys


def test_one_run_has_no_alignment() -> None:
    assert marked(timeline("tl", [RunUrl("a")]), "data-choice") == {"speed"}


def test_it_can_be_reached_and_heard() -> None:
    tree = timeline("tl", [RunUrl("a")])
    root = next(props(p) for p in parts_of(tree) if props(p).get("id") == "tl-root")
    assert root["tabIndex"] == 0
    assert root["role"] == "application"
    assert "Space plays" in root["aria-label"]
    live = next(props(p) for p in parts_of(tree) if props(p).get("data-part") == "live")
    assert live["aria-live"] == "polite"


def test_options_reach_the_config() -> None:
    options = Options(
        align="F0", scale="norm", ranks="0,1", memory=False, height=300, address=False
    )
    made = config("cmp", [RunUrl("a", "A")], options)
    assert made == {
        "prefix": "cmp",
        "runs": [{"id": "a", "label": "A", "url": "/api/runs/a/timeline.json"}],
        "align": "F0",
        "scale": "norm",
        "ranks": "0,1",
        "memory": False,
        "height": 300,
        "address": False,
    }


def test_a_new_config_reaches_the_browser_by_one_callback() -> None:
    app = Dash("test", assets_folder=str(ASSETS))
    register(app, "tl")
    assert list(app.callback_map) == ["tl-root.data-cfg"]
