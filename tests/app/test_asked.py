"""What a page may ask for: presets and words, no files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from dash import Dash

from zerosim.errors import ScenarioError, UnknownNameError
from zerosim_app.asked import scenario_asked
from zerosim_app.pages.simulate import keep_run, layout, show


def test_a_preset_with_words_is_a_scenario() -> None:
    assert scenario_asked("lesson-zero3", ["prefetch=2"]).schedule.options == {"prefetch": 2}


@pytest.mark.parametrize(
    "word",
    [
        "file=/etc/passwd",
        "workload.file=/etc/passwd",
        "cluster.file=/etc/passwd",
        "calibration=/etc/passwd",
        "cluster.calibration=/etc/passwd",
    ],
)
def test_no_page_reads_a_file_as_a_part_of_a_scenario(word: str) -> None:
    with pytest.raises(ScenarioError, match="no page reads files of this machine"):
        scenario_asked("lesson-zero3", [word])


def test_no_page_reads_a_file_as_a_scenario(tmp_path: Path) -> None:
    (tmp_path / "secret.toml").write_text("[workload]\nlayers = 2\n")
    with pytest.raises(UnknownNameError, match="no scenario preset"):
        scenario_asked(str(tmp_path / "secret.toml"), [])


def test_an_address_or_a_request_that_names_one_is_a_sentence(serving: Dash, tree: Any) -> None:
    del serving
    words = ["workload.file=/etc/passwd"]
    sentence = "no page reads files of this machine"
    assert sentence in tree(layout(set=words[0])).text
    assert sentence in tree(show(words, "step", "steady", "light", ["lesson-zero3", "zero3"])).text
    assert sentence in keep_run(1, "", words, ["lesson-zero3", "zero3"])[1]
