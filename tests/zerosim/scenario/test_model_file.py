"""A scenario that names an extracted model's file holds the model itself once it is loaded."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from tests.zerosim.models.test_extracted import RECORD
from zerosim.errors import InputError
from zerosim.scenario import Scenario, load_scenario, plan_of, run, workload_of
from zerosim.store import load_run, save_run


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "net.json"
    path.write_bytes(orjson.dumps(RECORD))
    return path


def test_a_word_puts_the_model_in_and_the_sizes_before_it_go(model: Path) -> None:
    scenario = load_scenario("gpt2-1.5b", [f"workload.file={model}", "schedule=zero3"])
    assert workload_of(scenario).name == scenario.name == "Net"
    assert scenario.workload.micro_batch == 2
    assert scenario.to_dict()["workload"] == {
        "model": "extracted",
        "micro_batch": 2,
        "micro_batches": 1,
        "checkpointing": "none",
        "record": RECORD,
    }


def test_a_toml_names_the_file_from_where_it_stands(model: Path) -> None:
    toml = model.parent / "mine.toml"
    toml.write_text('[workload]\nfile = "net.json"\nmicro_batch = 4\n[cluster]\nworld_size = 2\n')
    scenario = load_scenario(str(toml), ["micro_batches=3"])
    assert scenario.name == "mine"
    assert (scenario.workload.micro_batch, scenario.workload.micro_batches) == (4, 3)
    assert workload_of(scenario).tokens == 128


def test_a_stored_run_stands_alone(model: Path, tmp_path: Path) -> None:
    scenario = load_scenario("lesson-zero3", [f"file={model}"])
    save_run(run(scenario), tmp_path / "kept")
    model.unlink()
    again = load_scenario(str(tmp_path / "kept"))
    assert again == scenario
    assert load_run(tmp_path / "kept").meta.scenario == scenario.to_dict()


def test_the_plan_is_that_of_its_layers(model: Path) -> None:
    plan = plan_of(load_scenario("lesson-zero3", [f"file={model}"]))
    assert plan.order == "AGroot Femb AG0 F0 AG1 F1 B1 RS1 AG0 B0 RS0 AGroot Bemb RSroot OPT"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["file=absent.json"], "no file 'absent.json': give one that `zerosim extract -o` wrote"),
        (["file="], "workload.file is '': give a file"),
        (["file=MODEL", "hidden=9"], "workload.hidden is 9, but the model was extracted with its"),
        (["file=MODEL", "checkpointing=selective"], "workload.checkpointing is selective"),
        (["file=MODEL", "checkpointing=ops"], "workload.checkpointing is ops, which needs"),
        (["checkpointing=ops"], "workload.checkpointing is ops, but the layers of model 'uniform'"),
        (["file=MODEL", "model=gpt"], "workload.model is 'gpt' with a record"),
        (["model=extracted"], "workload.model is 'extracted' without a record: set workload.file"),
        (["record=x"], "workload.record is 'x': give a table"),
    ],
)
def test_what_an_extracted_model_cannot_be_told_is_refused(
    words: list[str], sentence: str, model: Path
) -> None:
    with pytest.raises(InputError, match=sentence):
        load_scenario("lesson-zero3", [word.replace("MODEL", str(model)) for word in words])


@pytest.mark.parametrize("content", [b"{", b"[]", b'"text"', b"\xff", b"{}"])
def test_another_file_is_no_model(content: bytes, model: Path) -> None:
    model.write_bytes(content)
    with pytest.raises(InputError, match=r"net.json' |the record's format is None"):
        load_scenario("lesson-zero3", [f"file={model}"])


def test_a_scenario_from_elsewhere_opens_no_file(model: Path) -> None:
    with pytest.raises(InputError, match="no workload field 'file'"):
        Scenario.from_dict({"workload": {"file": str(model)}})
    with pytest.raises(InputError, match=r"no field 'workload.file'"):
        load_scenario("lesson-zero3").with_set([f"workload.file={model}"])
