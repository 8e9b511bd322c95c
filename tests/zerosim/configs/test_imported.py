"""Files, a base scenario and `--set` words together: who decides, and what is refused."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.zerosim.configs.conftest import LLAMA, TITAN, ZERO3, Read
from tests.zerosim.models.test_extracted import RECORD
from zerosim.cli import run
from zerosim.configs.document import MAX_BYTES, read_document
from zerosim.configs.jsontext import read_json
from zerosim.errors import InputError
from zerosim.scenario import load_scenario, workload_of


def test_a_base_scenario_gives_model_and_machine_but_not_the_schedule(read: Read) -> None:
    scenario = read(ZERO3, model=None, base="llama2-70b").scenario
    base = load_scenario("llama2-70b")
    assert scenario.cluster == base.cluster
    assert scenario.workload.hidden == base.workload.hidden
    assert scenario.schedule.options["reduce_bucket_size"] == base.workload.hidden**2
    assert scenario.numerics.optimizer == "adamw"


def test_a_model_config_takes_the_place_of_the_base_model(read: Read) -> None:
    scenario = read(ZERO3, base="gpt2-1.5b").scenario
    assert (scenario.workload.model, scenario.workload.layers) == ("llama", 32)
    assert scenario.workload.tied is False


def test_an_extracted_model_may_be_the_model(read: Read) -> None:
    text = ZERO3.replace('"auto"', "1000").replace('_per_gpu": 2', '_per_gpu": 4')
    scenario = read(text, model=orjson.dumps(RECORD).decode()).scenario
    assert workload_of(scenario).tokens == 128


def test_words_decide_last_and_say_so(read: Read) -> None:
    found = read(ZERO3, "schedule.overlap_comm=true", "steps=2", "cluster=dgx-2")
    origins = {o.field: (o.value, o.origin) for o in found.origins}
    assert origins["schedule.overlap_comm"] == (True, "--set")
    assert origins["run.steps"] == (2, "--set")
    assert origins["cluster.name"] == ("dgx-2", "--set")


def test_another_schedule_has_its_own_defaults_and_they_say_so(read: Read) -> None:
    found = read(LLAMA, "schedule=fsdp2", "wrap=root", model=None)
    origins = {o.field: (o.value, o.origin) for o in found.origins}
    assert origins["schedule.name"] == ("fsdp2", "--set")
    assert origins["schedule.wrap"] == ("root", "--set")
    assert origins["schedule.keep_last_layer"] == (False, "default of fsdp2")


def test_an_extracted_model_has_no_hidden_size_to_fill_an_auto_from(read: Read) -> None:
    with pytest.raises(InputError, match="an extracted model does not say its hidden size"):
        read(ZERO3, model=orjson.dumps(RECORD).decode())


def test_simulate_prints_and_answers_with_the_origins(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "ds.json").write_text(ZERO3)
    (tmp_path / "config.json").write_text(LLAMA)
    words = [
        "simulate",
        "--from",
        f"{tmp_path}/ds.json",
        "--model-config",
        f"{tmp_path}/config.json",
    ]
    assert run([*words, "--set", "layers=2"]) == 0
    printed = capsys.readouterr().out
    assert "ds.json line 6: zero_optimization.overlap_comm" in printed
    assert "no effect here  ds.json: optimizer.params (3), steps_per_print (14)" in printed
    assert run([*words, "--set", "layers=2", "--json"]) == 0
    answer = orjson.loads(capsys.readouterr().out)
    origin = next(o for o in answer["origins"] if o["field"] == "workload.layers")
    assert origin == {"field": "workload.layers", "value": 2, "origin": "--set"}
    assert {"file": "ds.json", "line": 14, "key": "steps_per_print"} in answer["no_effect"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("simulate", "Missing argument 'SCENARIO': give one, or --from FILE"),
        (
            "simulate lesson-zero3 --model-config x.json",
            "--model-config x.json: it goes with --from",
        ),
        ("simulate --from absent.json", "no configuration 'absent.json': check the path"),
    ],
)
def test_options_that_lack_another_are_refused(
    arguments: str, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments.split()) == 2
    assert capsys.readouterr().err.startswith(f"zerosim: {sentence}")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b'{"a": 1}', "config line 1: a: zerosim knows no such configuration"),
        (b"{}", "config: nothing: zerosim knows no such configuration"),
        (b"[1]", "config line 1: 1: zerosim knows no such configuration"),
        (b"\xff\xfe", "is no text: give JSON, TOML or YAML"),
        (b"{" * 5000, "config line 1: expected a key"),
        (b'{"a":' * 5000, "over 50 levels deep"),
        (b"distributed_type = 'FSDP'\n" + b"a." * 5000 + b"a = 1", "line 2 .*Key of over 50 parts"),
        (
            b"model = 1\n" + TITAN[TITAN.index("[training]") :].encode(),
            "model is 1: give a table of",
        ),
        (b"distributed_type: MULTI_GPU\nmixed_precision: []", r"line 2: mixed_precision is '\[\]'"),
        (b"a = " + b"{a = " * 60, "mend the file"),
        (b"a: " + b"[" * 100_000, "over 50 levels deep"),
        (b'{"a": [' + b"[" * 5000, "over 50 levels deep"),
        (b" " * (MAX_BYTES + 1), "so no configuration"),
    ],
)
def test_what_is_no_configuration_is_one_sentence(
    content: bytes, sentence: str, tmp_path: Path
) -> None:
    path = tmp_path / "config"
    path.write_bytes(content)
    with pytest.raises(InputError, match=sentence):
        run_from(path)


@given(
    text=st.sampled_from([ZERO3, TITAN, LLAMA]),
    at=st.integers(0, 2000),
    other=st.sampled_from(["", "{", "}", ",", '"', "\n", "=", "[", "0", "-1", "null", "#", "e9"]),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_configuration_with_a_slip_is_read_or_refused_in_one_sentence(
    text: str, at: int, other: str, tmp_path: Path
) -> None:
    path = tmp_path / "config"
    at %= len(text)
    path.write_text(text[:at] + other + text[at + 1 :])
    try:
        run_from(path)
    except InputError as error:
        assert "\n" not in str(error)  # noqa: PT017 - both ends are right


def run_from(path: Path) -> None:
    from zerosim.configs import from_files  # noqa: PLC0415 - beside its only use

    from_files(path, base="lesson-zero3")


@given(
    value=st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
        max_leaves=12,
    )
)
def test_json_is_read_as_the_standard_library_reads_it(value: object) -> None:
    import json  # noqa: PLC0415 - the reference, beside its only use

    text = json.dumps(value, indent=1)
    found, lines = read_json("x", text)
    assert found == json.loads(text)
    if isinstance(value, dict):
        assert {key for key in lines if len(key) == 1} == {(str(key),) for key in value}


@given(text=st.text(alphabet='{}[]",:#/\\ \n0129eE.-+truefalsnl', max_size=40))
def test_whatever_a_file_holds_the_answer_is_json_or_a_sentence(text: str) -> None:
    try:
        read_json("x", text)
    except InputError as error:
        assert str(error).startswith("x line ")  # noqa: PT017 - both ends are right


def test_lines_of_a_toml_are_those_of_its_keys(tmp_path: Path) -> None:
    path = tmp_path / "job"
    path.write_text('# c\n[a]\nx = 1\n[a.b]\n"y" = 2\nc.d = 3\n')
    document = read_document(path)
    assert [(keys, document.place(keys).line) for keys, _ in document.leaves()] == [
        (("a", "x"), 3),
        (("a", "b", "y"), 5),
        (("a", "b", "c", "d"), 6),
    ]
