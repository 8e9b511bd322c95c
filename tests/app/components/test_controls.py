"""Controls: each holds its value as text, says what it means, and shows its default."""

from __future__ import annotations

from typing import Any

import pytest

from zerosim_app.components.controls import Field, control, plain, shown_of, text_of


@pytest.mark.parametrize(
    ("value", "text"), [(None, ""), (True, "true"), (False, "false"), (0.5, "0.5"), (7, "7")]
)
def test_a_value_is_written_as_set_reads_it(value: object, text: str) -> None:
    assert text_of(value) == text


def test_a_switch_offers_both_ways(tree: Any) -> None:
    row = tree(
        control(Field("schedule.overlap", "whether it overlaps", True, False, kinds=(bool,)))
    )
    (choice,) = [p for p in row.parts if getattr(p, "data", None)]
    assert ([o["value"] for o in choice.data], choice.value) == (["true", "false"], "false")
    assert "default true" in row.text
    assert row.named("zs-changed")


def test_a_value_that_is_no_choice_stays_visible(tree: Any) -> None:
    row = tree(control(Field("a.b", "some choice", "x", "z", choices=("x", "y"))))
    (choice,) = [p for p in row.parts if getattr(p, "data", None)]
    assert [option["value"] for option in choice.data] == ["x", "y", "z"]


def test_a_choice_without_a_default_can_be_taken_back(tree: Any) -> None:
    row = tree(control(Field("a.b", "some choice", None, "x", choices=("x",))))
    (choice,) = [p for p in row.parts if getattr(p, "data", None)]
    assert choice.data == [{"value": "x", "label": "x"}, {"value": "", "label": "none"}]


def test_large_numbers_are_written_in_groups_and_read_back(tree: Any) -> None:
    row = tree(control(Field("a.size", "how large", 500_000_000, 7_000, "elements", (int,))))
    assert "default 500,000,000" in row.text
    assert (shown_of(7_000), shown_of(12_345), shown_of(True)) == ("7000", "12,345", "true")
    assert (plain("500,000,000"), plain("5e8"), plain("25,1")) == ("500000000", "5e8", "25,1")


def test_a_number_has_its_unit_and_none_is_an_empty_field(tree: Any) -> None:
    row = tree(control(Field("a.size", "how large", None, None, "bytes", (int,))))
    assert "bytes" in row.text
    assert "default none" in row.text
    assert not row.named("zs-changed")


def test_a_long_name_breaks_after_its_underscores_only(tree: Any) -> None:
    row = tree(control(Field("schedule.set_reshard_after_backward", "what it does", True, True)))
    (name,) = [p for p in row.parts if type(p).__name__ == "Code"]
    words = [part if isinstance(part, str) else "|" for part in name.children]
    assert words == ["set_", "|", "reshard_", "|", "after_", "|", "backward"]


def test_choices_under_headings_each_have_a_line_about_them(tree: Any) -> None:
    groups = (("A100", (("p4d", "8 A100"),)), ("H100", (("p5", "8 H100"),)))
    row = tree(control(Field("cluster.name", "the machine", "p5", "p4d", grouped=groups)))
    select = next(part for part in row.parts if getattr(part, "data", None))
    assert select.value == "p4d"
    assert select.data[1] == {
        "group": "H100",
        "items": [{"value": "p5", "label": "p5", "says": "8 H100"}],
    }
