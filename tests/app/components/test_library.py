"""The library's controls: off until something is ticked, and asking before they delete."""

from __future__ import annotations

from typing import Any

from zerosim_app.components.library import buttons, delete_modal, drop_zone, rename_modal, said


def test_buttons_are_off_at_first() -> None:
    assert [(b.children, b.disabled) for b in buttons()] == [
        ("Open", True),
        ("Compare", True),
        ("Rename", True),
        ("Delete", True),
    ]


def test_the_zone_says_its_limit_and_sends_nothing_at_first(tree: Any) -> None:
    zone = tree(drop_zone(5_000_000))
    assert "up to 5 MB each" in zone.text
    assert zone.by_id("runs-sending").hidden is True


def test_questions_are_closed_at_first(tree: Any) -> None:
    assert [modal.opened for modal in (rename_modal(), delete_modal())] == [False, False]
    assert {"delete-what", "delete-yes"} <= tree(delete_modal()).ids()


def test_what_happened_is_announced() -> None:
    assert getattr(said("x"), "aria-live") == "polite"
