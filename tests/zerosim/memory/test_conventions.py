"""Byte conventions: their bytes, and that each names its source."""

from __future__ import annotations

import pytest

from zerosim.errors import UnknownNameError
from zerosim.memory.conventions import CONVENTIONS, convention_of, numerics_of
from zerosim.numerics import Numerics


def test_the_conventions_are_those_of_the_systems() -> None:
    table = {
        name: (c.parameters, c.gradients, c.optimizer) for name, c in CONVENTIONS.entries.items()
    }
    assert table == {
        "paper": (2, 2, 12),
        "deepspeed-fp16": (2, 2, 12),
        "deepspeed-bf16": (2, 4, 12),
        "fsdp2-mixed": (4, 4, 8),
        "megatron": (2, 4, 12),
        "adam-8bit": (2, 2, 6),
        "adam-bf16": (2, 2, 4),
        "adam-fp32": (4, 4, 8),
        "momentum": (2, 2, 8),
        "sgd": (2, 2, 4),
    }


@pytest.mark.parametrize("name", [*CONVENTIONS])
def test_each_names_its_source_and_itself(name: str) -> None:
    assert CONVENTIONS[name].source
    assert CONVENTIONS[name].name == name
    assert set(CONVENTIONS[name].offers) <= {0, 1, 2, 3}


def test_its_line_says_the_sum() -> None:
    assert CONVENTIONS["paper"].line == "paper: 16-bit Adam, 2 + 2 + 12 = 16 B a parameter"


def test_an_unknown_one_gets_a_suggestion() -> None:
    with pytest.raises(UnknownNameError, match="no byte convention 'papers': did you mean 'paper'"):
        CONVENTIONS["papers"]


@pytest.mark.parametrize("name", [*CONVENTIONS])
def test_its_numerics_take_its_bytes(name: str) -> None:
    convention = CONVENTIONS[name]
    numerics = numerics_of(convention)
    held = (numerics.storage_bytes, numerics.reduce_bytes, numerics.optimizer_bytes)
    assert held == (convention.parameters, convention.gradients, convention.optimizer)
    assert convention_of(numerics, name) is convention


def test_numerics_are_called_by_the_first_convention_with_their_bytes() -> None:
    assert convention_of(Numerics()).name == "paper"
    assert convention_of(Numerics("float32", "float32")).name == "adam-fp32"
    assert convention_of(Numerics(optimizer="sgd")).name == "sgd"
    assert convention_of(Numerics(master=False)).name == "adam-bf16"  # as many bytes as sgd


def test_a_name_that_the_bytes_do_not_bear_is_not_used() -> None:
    assert convention_of(Numerics(), "megatron").name == "paper"


def test_bytes_of_no_convention_are_the_scenarios_own() -> None:
    own = convention_of(Numerics(storage_dtype="float32"))
    assert own.line == (
        "own: stored in float32, bfloat16 with adam, gradients kept in bfloat16, "
        "4 + 2 + 8 = 14 B a parameter"
    )
