"""The frame: one place for navigation, theme and help."""

from __future__ import annotations

from typing import Any

from zerosim_app.components.shell import NAV, shell


def test_navigation_names_the_seven_pages(tree: Any) -> None:
    frame = tree(shell())
    assert [(link.children, link.href) for link in frame.named("zs-nav")] == list(NAV)
    assert [name for name, _ in NAV] == [
        *("Start", "Learn", "Simulate", "Explore", "Compare", "Runs", "Accuracy")
    ]


def test_the_theme_is_kept_in_the_browser(tree: Any) -> None:
    frame = tree(shell())
    choice = frame.by_id("theme-choice")
    assert (choice.storage_type, choice.data) == ("local", "auto")
    values = [option["value"] for option in frame.by_id("theme-switch").data]
    assert values == ["auto", "light", "dark"]


def test_help_lists_the_keys_of_lesson_and_timeline(tree: Any) -> None:
    text = tree(tree(shell()).by_id("help")).text
    for words in ("Home End first, last step", "W S zoom in, out", "Esc close, or clear"):
        assert words in text


def test_buttons_and_regions_have_names(tree: Any) -> None:
    frame = tree(shell())
    assert getattr(frame.by_id("help-open"), "aria-label") == "Keyboard help"
    assert getattr(frame.by_id("theme-switch"), "aria-label") == "Colour theme"
    assert [getattr(nav, "aria-label") for nav in frame.named("zs-navs")] == ["Pages"]


def test_the_page_can_be_skipped_to(tree: Any) -> None:
    frame = tree(shell())
    (skip,) = frame.named("zs-skip")
    assert skip.href == "#page"
    assert frame.by_id("page").tabIndex == -1


def test_each_caller_gets_a_frame_of_its_own() -> None:
    assert shell() is not shell()
