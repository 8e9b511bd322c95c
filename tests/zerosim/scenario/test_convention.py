"""The byte convention of a scenario: it sets dtypes and optimizer, and fields beside it override it."""

from __future__ import annotations

import pytest

from zerosim.errors import UnknownNameError
from zerosim.numerics import Numerics
from zerosim.scenario import Scenario, convention_of, load_scenario, numerics_of

FSDP2 = Numerics("bfloat16", "bfloat16", "adam", reduce_dtype="float32", storage_dtype="float32")


def test_a_convention_sets_dtypes_and_optimizer() -> None:
    scenario = load_scenario("gpt2-1.5b", ["numerics.convention=fsdp2-mixed"])
    assert numerics_of(scenario) == FSDP2
    assert convention_of(scenario).name == "fsdp2-mixed"


def test_it_replaces_what_the_scenario_had() -> None:
    scenario = load_scenario("lesson-zero3", ["dtype=float64"]).with_set(["convention=momentum"])
    assert numerics_of(scenario) == Numerics("bfloat16", "bfloat16", "momentum")


def test_fields_beside_it_override_it() -> None:
    words = ["convention=fsdp2-mixed", "reduce_dtype=bfloat16"]
    scenario = load_scenario("gpt2-1.5b", words)
    assert numerics_of(scenario).reduce_dtype == "bfloat16"
    assert numerics_of(scenario).storage_dtype == "float32"
    assert convention_of(scenario).name == "own"


def test_a_master_copy_can_be_left_out() -> None:
    scenario = load_scenario("gpt2-1.5b", ["numerics.master=false"])
    assert numerics_of(scenario).optimizer_bytes == 4
    assert convention_of(scenario).name == "adam-bf16"


def test_a_file_may_name_it_and_override_it() -> None:
    table = {"numerics": {"convention": "megatron", "optimizer": "sgd"}}
    assert numerics_of(Scenario.from_dict(table)) == Numerics("bfloat16", "float32", "sgd")


def test_it_survives_being_written_out() -> None:
    scenario = load_scenario("gpt2-1.5b", ["convention=fsdp2-mixed", "optimizer=sgd"])
    assert Scenario.from_dict(scenario.to_dict()) == scenario


def test_none_returns_to_the_default() -> None:
    scenario = load_scenario("gpt2-1.5b", ["convention=megatron", "convention=none"])
    assert scenario.numerics.convention is None
    assert numerics_of(scenario) == Numerics()


def test_of_two_with_the_same_bytes_the_named_one_is_told() -> None:
    names = ("deepspeed-bf16", "megatron")
    told = [convention_of(load_scenario("gpt2-1.5b", [f"convention={n}"])).name for n in names]
    assert told == ["deepspeed-bf16", "megatron"]


def test_an_unknown_one_gets_a_suggestion() -> None:
    with pytest.raises(UnknownNameError, match="no byte convention 'megatrn': did you mean 'mega"):
        load_scenario("gpt2-1.5b", ["convention=megatrn"])
