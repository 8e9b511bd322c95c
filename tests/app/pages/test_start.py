"""Start: four doors, the runs, two commands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from dash import Dash

from zerosim.scenario import load_scenario, run
from zerosim.store import save_run
from zerosim_app.config import examples_path
from zerosim_app.factory import create_app
from zerosim_app.pages.start import COMMANDS, layout


def test_four_doors_lead_to_learn_simulate_explore_and_runs(serving: Dash, tree: Any) -> None:
    del serving
    doors = tree(layout()).named("zs-door")
    assert [door.href for door in doors] == [
        "/learn/zero3",
        "/simulate",
        "/explore?run=lesson-zero3",
        "/runs",
    ]


def test_every_example_is_listed_however_many_runs_there_are(tmp_path: Path, tree: Any) -> None:
    made = run(load_scenario("lesson-zero3"))
    for i in range(9):
        save_run(made, tmp_path / f"mine-{i}")
    app = create_app(tmp_path, examples=examples_path())
    with app.server.test_request_context("/"):
        links = [p.href for p in tree(layout()).named("zs-run")]
    assert len([href for href in links if "mine" in href]) == 6
    assert links[6:] == [
        "/explore?run=five-parameters",
        "/explore?run=five-parameters-old",
        "/explore?run=gpt2-1.5b",
        "/explore?run=lesson-zero3",
        "/explore?run=lesson-zero3-gloo",
    ]


def test_own_runs_are_listed_before_examples(serving: Dash, tree: Any) -> None:
    del serving
    links = [p.href for p in tree(layout()).named("zs-run")]
    assert links == [
        "/explore?run=mine",
        "/explore?run=lesson-ddp",
        "/explore?run=lesson-zero3",
    ]


def test_the_commands_for_the_shell_are_shown(serving: Dash, tree: Any) -> None:
    del serving
    assert [command in tree(layout()).text for command, _ in COMMANDS] == [True, True]


def test_an_empty_house_still_opens(tmp_path: Path, tree: Any) -> None:
    app = create_app(tmp_path / "none", examples=tmp_path / "none")
    with app.server.test_request_context("/"):
        page = tree(layout())
    assert "No runs yet." in page.text
    assert "/explore" in page.hrefs()


@pytest.mark.parametrize("argument", ["x", "run"])
def test_unknown_arguments_are_ignored(serving: Dash, tree: Any, argument: str) -> None:
    del serving
    assert tree(layout(**{argument: "1"})).named("zs-door")
