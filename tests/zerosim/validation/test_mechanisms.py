"""Mechanisms taken out: each changes the step in its own direction, and nothing else."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from zerosim.errors import UnknownNameError
from zerosim.validation.ablation import ablation
from zerosim.validation.mechanisms import MECHANISMS, without
from zerosim.validation.predict import predicted
from zerosim.validation.rows import StepRow
from zerosim.validation.trial import Trial


def seconds(row: StepRow, *taken_out: str) -> float:
    return predicted(row, Trial(without=taken_out)).seconds


@pytest.mark.parametrize("mechanism", ["overlap", "prefetch"])
def test_what_hides_communication_makes_a_step_shorter(
    row: Callable[..., StepRow], mechanism: str
) -> None:
    assert seconds(row(), mechanism) > seconds(row())


@pytest.mark.parametrize("mechanism", ["host", "launch", "memory", "contention"])
def test_what_takes_time_makes_a_step_no_shorter(
    row: Callable[..., StepRow], mechanism: str
) -> None:
    assert seconds(row(), mechanism) <= seconds(row())


def test_every_mechanism_can_be_taken_out_of_every_schedule(row: Callable[..., StepRow]) -> None:
    given: tuple[dict[str, str], ...] = (
        {},
        {"framework": "torchtitan FSDP2"},
        {"framework": "DeepSpeed"},
    )
    for changes in given:
        assert seconds(row(step_time_s="60", **changes), *MECHANISMS) > 0


def test_an_unknown_mechanism_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="no mechanism 'overlapp': did you mean 'overlap'"):
        without(["overlapp"])


def test_an_ablation_has_a_line_with_all_and_one_without_each(row: Callable[..., StepRow]) -> None:
    found = ablation([row(layers="4", params="1020223488", step_time_s="1")], Trial())
    assert [one.mechanism for one in found] == ["", *MECHANISMS]
    assert found[0].errors["test"].n_rows == 1
    assert found[1].errors["test"].bias > found[0].errors["test"].bias
