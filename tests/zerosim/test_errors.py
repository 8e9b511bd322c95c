"""Errors: one tree, one sentence each."""

from __future__ import annotations

import pytest

from zerosim.errors import (
    InputError,
    PlanError,
    RunError,
    RuntimeFailedError,
    ScenarioError,
    TraceFileError,
    UnknownNameError,
    ZerosimError,
)


def test_a_close_name_is_suggested() -> None:
    error = UnknownNameError("schedule", "zero-3", ["zero3", "ddp"])
    assert str(error) == "no schedule 'zero-3': did you mean 'zero3'? known: ddp, zero3"


def test_a_name_like_nothing_known_gets_the_list_alone() -> None:
    assert str(UnknownNameError("engine", "qqqq", ["auto"])) == "no engine 'qqqq': known: auto"


@pytest.mark.parametrize("error", [PlanError, RunError, ScenarioError, TraceFileError])
def test_wrong_input_is_one_branch_of_the_tree(error: type[ZerosimError]) -> None:
    assert issubclass(error, InputError)


def test_failed_ranks_are_not_wrong_input() -> None:
    assert not issubclass(RuntimeFailedError, InputError)
    assert issubclass(RuntimeFailedError, ZerosimError)


def test_of_very_many_names_the_first_are_listed() -> None:
    error = UnknownNameError("module", "x", [f"{i:04}" for i in range(1000)])
    assert str(error).endswith("0198, 0199, … (1000 in all)")
