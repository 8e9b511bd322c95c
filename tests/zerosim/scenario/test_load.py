"""Scenarios from presets, TOML files, run.json and run directories; hostile files are refused."""

from __future__ import annotations

import pickle
from pathlib import Path

import orjson
import pytest

from zerosim.errors import InputError, ScenarioError, UnknownNameError
from zerosim.scenario import (
    PRESETS,
    Scenario,
    cluster_of,
    load_scenario,
    numerics_of,
    plan_of,
    run,
    variation_of,
    workload_of,
)
from zerosim.store import save_run


def toml(tmp_path: Path, text: str) -> str:
    (tmp_path / "mine.toml").write_text(text)
    return str(tmp_path / "mine.toml")


def test_a_toml_file_is_named_after_itself_and_fills_in_defaults(tmp_path: Path) -> None:
    scenario = load_scenario(toml(tmp_path, '[workload]\nlayers = 4\n[schedule]\nname = "ddp"\n'))
    assert scenario.name == "mine"
    assert scenario.workload.layers == 4
    assert scenario.schedule.name == "ddp"
    assert scenario.cluster.world_size == 3


@pytest.mark.parametrize("preset", list(PRESETS))
def test_every_preset_builds_all_that_it_names(preset: str) -> None:
    scenario = load_scenario(preset)
    assert workload_of(scenario).n_params > 0
    assert cluster_of(scenario).world_size == scenario.cluster.world_size
    assert numerics_of(scenario).dtype == scenario.numerics.dtype
    assert variation_of(scenario).speed == ()
    assert "OPT" in plan_of(scenario).order.split()


def test_a_stored_run_is_a_scenario_again(tmp_path: Path) -> None:
    scenario = load_scenario("lesson-zero3", ["layers=2"])
    path = save_run(run(scenario), tmp_path / "run")
    assert load_scenario(str(path)) == scenario
    assert load_scenario(str(path / "run.json")) == scenario
    assert load_scenario(str(path), ["layers=3"]).workload.layers == 3


def test_an_imported_run_has_no_scenario(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_bytes(orjson.dumps({"name": "x", "scenario": None}))
    with pytest.raises(ScenarioError, match=r"has no scenario \(it is of a program, or imported\)"):
        load_scenario(str(tmp_path / "run.json"))


def test_an_unknown_preset_gets_a_suggestion() -> None:
    with pytest.raises(
        UnknownNameError, match="no scenario preset 'lesson-zero4': did you mean 'lesson-zero"
    ):
        load_scenario("lesson-zero4")


@pytest.mark.parametrize(("name", "text"), [("a.yaml", "x: 1\n"), ("ds.json", '{"a": 1, "b": 2}')])
def test_another_systems_configuration_belongs_to_from(
    name: str, text: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(ScenarioError, match=r"is no scenario: .* give it with --from"):
        load_scenario(str(tmp_path / name))


def test_an_absent_file_is_not_taken_for_a_preset(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="no scenario file"):
        load_scenario(str(tmp_path / "absent.toml"))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[workload]\nlayer = 4\n", "no workload field 'layer': did you mean 'layers'"),
        ("[wrkload]\nlayers = 4\n", "no scenario section 'wrkload': did you mean 'workload'"),
        ("[job]\n[training]\n", "is no scenario: if it configures another system, give it with --"),
        ("[workload]\nlayers = 0\n", "workload.layers is 0: give at least 1"),
        ("[cluster]\nintra_busbw = nan\n", "cluster.intra_busbw is nan: give a finite number"),
        ("[cluster]\nintra_busbw = -1.0\n", "cluster.intra_busbw is -1.0"),
        ('[workload]\nlayers = "many"\n', "workload.layers is 'many': give a number"),
        ("schedule = 3\n", "[schedule] is 3: give a table of fields"),
        ("workload = []\n", "[workload] is []: give a table of fields"),
        ("name = 3\n", "name is 3: give some text"),
        ("[workload\n", "cannot read scenario"),
        ("x = " + "[" * 5000, "cannot read scenario"),
        ("[workload]\nlayers = " + "9" * 5000 + "\n", "cannot read scenario"),
        ('[numerics]\ngrad_dtype = ""\n', "no dtype ''"),
        ("# " + "x" * 2**20, "is over 1048576 bytes, so no scenario: give a TOML file or run.json"),
        ("[workload]\nlayers = -" + "9" * 400 + "\n", "workload.layers is over 1e+300"),
    ],
)
def test_a_wrong_file_is_one_sentence(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(InputError) as error:
        run(load_scenario(toml(tmp_path, text)))
    assert sentence in str(error.value)
    assert len(str(error.value)) < 500


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"3", b"\xff\xfe", pickle.dumps({"scenario": {}}), b"[" * 99999]
)
def test_a_file_that_is_no_json_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "run.json").write_bytes(content)
    with pytest.raises(ScenarioError):
        load_scenario(str(tmp_path / "run.json"))


@pytest.mark.parametrize("source", ["x" * 300, "x" * 300 + ".toml", "/proc/self/mem"])
def test_what_the_system_cannot_read_is_bad_input(source: str) -> None:
    with pytest.raises(
        ScenarioError, match=rf"cannot read scenario '{source}': .*; check the path"
    ):
        load_scenario(source)


def test_a_scenario_is_a_value() -> None:
    assert load_scenario("lesson-zero3") == load_scenario("lesson-zero3")
    assert Scenario("scenario") == Scenario.from_dict({})
