"""The codec: a scenario survives every way of writing it, and a wrong one is one helpful sentence."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zerosim.errors import InputError, ScenarioError, UnknownNameError
from zerosim.scenario import PRESETS, Scenario, load_scenario, plan_of, run, workload_of
from zerosim.scenario.codec import SECTIONS
from zerosim.schedules import SCHEDULES

Draw = Callable[[st.SearchStrategy[Any]], Any]

WORDS = st.sampled_from(
    [
        "layers=5",
        "hidden=64",
        "workload.micro_batch=2",
        "micro_batches=3",
        "world_size=6",
        "ranks_per_node=2",
        "schedule=ddp",
        "schedule=zero1",
        "schedule=zero2",
        "schedule=zero3",
        "bucket_bytes=1000",
        "bucket_bytes=none",
        "cluster=dgx-h100",
        "cluster.intra_busbw=2.5e9",
        "peak_flops=1e12",
        "dtype=bfloat16",
        "grad_dtype=float32",
        "optimizer=sgd",
        "steps=3",
        "seed=9",
        "engine=simpy",
        "jitter=0.25",
        "stragglers=0:1.5",
    ]
)


@pytest.mark.parametrize("preset", list(PRESETS))
def test_a_preset_survives_being_written_and_read(preset: str) -> None:
    scenario = load_scenario(preset)
    assert Scenario.from_dict(scenario.to_dict()) == scenario
    assert Scenario.from_dict(orjson.loads(orjson.dumps(scenario.to_dict()))) == scenario


@given(st.sampled_from(list(PRESETS)), st.lists(WORDS, max_size=6))
def test_a_changed_preset_survives_being_written_and_read(preset: str, words: list[str]) -> None:
    options = {f.name for f in fields(SCHEDULES[load_scenario(preset).schedule.name].options)}
    # Not every schedule has buckets of bytes.
    known = [w for w in words if not w.startswith("bucket_bytes") or "bucket_bytes" in options]
    scenario = load_scenario(preset, known)
    assert Scenario.from_dict(orjson.loads(orjson.dumps(scenario.to_dict()))) == scenario


def test_everything_is_written_out_that_has_a_value() -> None:
    record = load_scenario("lesson-zero3").to_dict()
    assert record["schedule"] == {
        "name": "zero3",
        "keep_last": True,
        "prefetch": 0,
        "communicators": 1,
    }
    assert record["numerics"] == {"dtype": "float32", "optimizer": "adam"}
    assert record["run"] == {
        "steps": 1,
        "seed": 0,
        "engine": "auto",
        "stragglers": "",
        "jitter": 0.0,
    }


def test_a_bare_field_is_found_in_its_section() -> None:
    scenario = load_scenario("lesson-zero3", ["prefetch=1", "layers=7", "world_size=4"])
    assert scenario.schedule.options == {"prefetch": 1}
    assert scenario.workload.layers == 7
    assert scenario.cluster.world_size == 4


def test_numbers_may_be_written_as_people_do() -> None:
    scenario = load_scenario("lesson-zero3", ["hidden=1_024", "peak_flops=1e12", "layers=4.0"])
    assert scenario.workload.hidden == 1024
    assert scenario.cluster.peak_flops == 1e12
    assert scenario.workload.layers == 4


def test_another_schedule_keeps_the_options_that_it_has() -> None:
    before = load_scenario("lesson-zero3", ["bucket_bytes=99", "prefetch=1"])
    scenario = before.with_set(["schedule=zero2"])
    assert scenario.schedule.name == "zero2"
    assert scenario.schedule.options == {"bucket_bytes": 99}


def test_another_schedule_starts_at_its_own_defaults() -> None:
    scenario = load_scenario("five-parameters", ["schedule=deepspeed-2"])
    assert scenario.schedule.options == {}  # ColossalAI's bucket of 1,048,576 elements stays there
    scenario = load_scenario("lesson-zero3", ["schedule=deepspeed-3"])
    assert scenario.with_set(["schedule=deepspeed-2"]).schedule.options == {}  # no overlap_comm
    assert load_scenario("lesson-fsdp1", ["schedule=ddp"]).schedule.options == {}  # with no_sync


def test_another_cluster_keeps_the_ranks_and_drops_what_was_changed_about_the_old_one() -> None:
    before = load_scenario("lesson-zero3", ["intra_busbw=5e9", "world_size=4"])
    cluster = before.with_set(["cluster=dgx-2"]).cluster
    assert (cluster.name, cluster.world_size, cluster.intra_busbw) == ("dgx-2", 4, None)


def test_words_that_pick_something_come_first_wherever_they_stand() -> None:
    words = ["no_sync=true", "schedule=fsdp1", "intra_busbw=5e9", "cluster=dgx-2"]
    scenario = load_scenario("lesson-zero3", [*words, "optimizer=sgd", "convention=paper"])
    assert scenario.schedule.options == {"no_sync": True}
    assert (scenario.cluster.name, scenario.cluster.intra_busbw) == ("dgx-2", 5e9)
    assert (scenario.numerics.convention, scenario.numerics.optimizer) == ("paper", "sgd")


def test_a_schedule_may_be_picked_by_its_full_field() -> None:
    scenario = load_scenario("lesson-zero3", ["prefetch=1"]).with_set(["schedule.name=ddp"])
    assert (scenario.schedule.name, scenario.schedule.options) == ("ddp", {})


def test_an_option_that_the_picked_schedule_lacks_is_not_dropped() -> None:
    with pytest.raises(UnknownNameError, match=r"no field 'prefetch': known: bucket_bytes$"):
        load_scenario("lesson-zero3", ["prefetch=1", "schedule=zero2"])


def test_an_option_cannot_be_given_under_both_of_its_names() -> None:
    schedule = {"name": "fsdp2", "keep_last": True, "keep_last_layer": False}
    with pytest.raises(
        ScenarioError, match=r"schedule\.keep_last and schedule\.keep_last_layer are"
    ):
        Scenario.from_dict({"schedule": schedule})


def test_none_is_what_the_engine_means_by_it() -> None:
    words = ["schedule=fsdp1", "backward_prefetch=None"]
    assert load_scenario("lesson-zero3", words).schedule.options == {
        "backward_prefetch": "NO_PREFETCH"
    }


def test_a_bias_is_said_of_uniform_layers_and_of_a_gpt() -> None:
    assert workload_of(load_scenario("lesson-zero3", ["bias=false"])).n_params == 3 * 768**2
    with_them, without = (
        workload_of(load_scenario("gpt2-1.5b", words)).n_params for words in ([], ["bias=false"])
    )
    # Of each block 11 widths, 2 of them its norms'; and the last norm's.
    assert with_them - without == (48 * 11 + 1) * 1600
    with pytest.raises(
        ScenarioError, match=r"workload\.bias is false, but model 'llama' has its own"
    ):
        load_scenario("llama2-7b", ["bias=false"])


@pytest.mark.parametrize("field", ["compile", "early_stop"])
def test_what_fuses_or_spares_kernels_asks_for_kernels_that_are_known(field: str) -> None:
    with pytest.raises(
        ScenarioError, match=rf"workload\.{field} is true, but .* take gpt or llama"
    ):
        load_scenario("lesson-zero3", [f"{field}=true"])


def test_none_means_the_default() -> None:
    words = ["ranks_per_node=4", "ranks_per_node=none"]
    assert load_scenario("lesson-zero3", words) == load_scenario("lesson-zero3")


@pytest.mark.parametrize(
    ("word", "sentence"),
    [
        ("layres=3", "no field 'layres': did you mean 'layers'"),
        ("workload.layer=3", "no field 'workload.layer': did you mean 'workload.layers'"),
        ("schedule=zero-3", "no schedule 'zero-3': did you mean 'zero3'"),
        ("cluster=dgx-h10", "no cluster 'dgx-h10': did you mean 'dgx-h100'"),
        ("dtype=float23", "no dtype 'float23': did you mean 'float32'"),
        ("optimizer=adamm", "no optimizer 'adamm': did you mean 'adam'"),
        ("engine=simp", "no engine 'simp': did you mean 'simpy'"),
    ],
)
def test_a_wrong_name_gets_a_suggestion(word: str, sentence: str) -> None:
    with pytest.raises(UnknownNameError) as error:
        run(load_scenario("lesson-zero3", [word]))
    assert str(error.value).startswith(sentence)


@pytest.mark.parametrize(
    ("word", "sentence"),
    [
        ("layers", "--set layers: write it as section.field=value"),
        ("=3", "--set =3: write it as section.field=value"),
        ("layers=three", "workload.layers is 'three': give a number"),
        ("layers=2.5", "workload.layers is 2.5: give a whole number"),
        ("layers=0", "workload.layers is 0: give at least 1"),
        ("layers=-3", "workload.layers is -3: give at least 1"),
        ("layers=nan", "workload.layers is nan: give a finite number"),
        ("layers=1e9", "workload.layers is 1000000000: give at most 100000"),
        ("hidden=0", "workload.hidden is 0: give at least 1"),
        ("world_size=0", "cluster.world_size is 0: give 1 to 1048576"),
        ("world_size=1e7", "cluster.world_size is 10000000: give 1 to 1048576"),
        ("ranks_per_node=0", "cluster.ranks_per_node is 0: give at least 1"),
        ("intra_busbw=-1", "cluster.intra_busbw is -1.0: give a finite number above 0"),
        ("intra_busbw=nan", "cluster.intra_busbw is nan: give a finite number"),
        ("peak_flops=inf", "cluster.peak_flops is inf: give a finite number"),
        ("peak_flops=0", "cluster.peak_flops is 0.0: give a finite number above 0"),
        ("base_s=-1", "cluster.base_s is -1.0: give a finite number, 0 or more"),
        ("steps=0", "run.steps is 0: give at least 1"),
        ("seed=-1", "run.seed is -1: give 0 or more"),
        ("jitter=2", "run.jitter is 2.0: give a share from 0 to 1"),
        ("stragglers=3", "run.stragglers has '3': write RANK:FACTOR, e.g. 3:1.3"),
        ("stragglers=9:1.5", "run.stragglers names rank 9: ranks are 0 to 2"),
        ("stragglers=0:-1", "run.stragglers has factor -1.0: give a number above 0, at most 100"),
        ("stragglers=0:nan", "run.stragglers has factor nan: give a number above 0, at most 100"),
        ("keep_last=perhaps", "schedule.keep_last is 'perhaps': give true or false"),
        ("model=gtp", "no model 'gtp': did you mean 'gpt'?"),
        ("model=gpt", "workload.vocab is missing for model 'gpt': give its vocabulary"),
        ("intra_hop_s=1e9", "the run would last "),
        ("hidden=1e12", "model 'uniform' has more parameters or tokens than can be counted"),
    ],
)
def test_a_value_that_makes_no_sense_is_one_sentence_with_a_remedy(
    word: str, sentence: str
) -> None:
    with pytest.raises(InputError) as error:
        run(load_scenario("lesson-zero3", [word]))
    assert str(error.value).startswith(sentence)
    assert "\n" not in str(error.value)


def test_a_plan_for_no_ranks_is_refused_before_anything_is_divided_by_them() -> None:
    with pytest.raises(ScenarioError, match=r"cluster\.world_size is 0: give 1 to 1048576"):
        plan_of(load_scenario("lesson-zero3", ["world_size=0"]))


def test_ops_that_would_not_fit_in_memory_are_refused() -> None:
    with pytest.raises(ScenarioError, match=r"has about 216000 ops a rank, over 200000"):
        run(load_scenario("lesson-zero3", ["layers=9000", "steps=3"]))
    with pytest.raises(InputError, match="1048576 ranks that differ run 18 ops each"):
        run(load_scenario("lesson-zero3", ["world_size=1048576", "jitter=0.1", "layers=3"]))


def test_a_bucket_that_takes_more_bytes_than_can_be_counted_is_refused() -> None:
    words = ["schedule=deepspeed-2", "dtype=bfloat16", "reduce_bucket_size=9223372036854775807"]
    with pytest.raises(ScenarioError, match="schedule 'deepspeed-2' takes more bytes than can be"):
        run(load_scenario("lesson-zero3", words))


JUNK = st.sampled_from(
    [
        *[None, True, "", "x", "nan", "--5", "1e400", [], [1], {}, {"a": 1}],
        *[-1, 0, 1, 7, 10**30, -(10**400), 10**400],
        *[1.5, -0.5, 1e-300, 1e300, math.nan, math.inf],
    ]
)
PLACES = [(section, field) for section, cls in SECTIONS.items() for field in cls.__slots__]


@given(st.sampled_from(PLACES), JUNK)
@settings(max_examples=400)
def test_whatever_stands_in_a_field_it_runs_or_is_refused(
    place: tuple[str, str], value: object
) -> None:
    record = load_scenario("lesson-zero3").to_dict()
    record[place[0]][place[1]] = value
    try:
        run(Scenario.from_dict(record))
    except InputError as error:
        assert "\n" not in str(error)  # noqa: PT017 - either is right


@given(st.sampled_from(["schedule", "name", *SECTIONS]), JUNK)
def test_whatever_stands_for_a_section_is_read_or_refused(section: str, value: object) -> None:
    record = load_scenario("lesson-zero3").to_dict() | {section: value}
    try:
        Scenario.from_dict(record)
    except InputError as error:
        assert "\n" not in str(error)  # noqa: PT017 - either is right


def test_an_unknown_section_gets_a_suggestion() -> None:
    with pytest.raises(UnknownNameError, match="no scenario section 'clutser': did you mean"):
        Scenario.from_dict({"clutser": {}})


def test_an_option_of_another_schedule_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="no ddp option 'prefetch': known: bucket_bytes"):
        Scenario.from_dict({"schedule": {"name": "ddp", "prefetch": 1}})
