"""Learn: the page of a lesson makes sense at any step, without a click."""

from __future__ import annotations

from typing import Any

import pytest

from zerosim.lessons import LESSONS, lesson
from zerosim_app.components.lesson import WORDS, steps
from zerosim_app.pages.learn import layout


def test_the_page_opens_at_the_first_step(tree: Any) -> None:
    page = tree(layout(name="zero3"))
    assert page.by_id("lesson-sentence").children.startswith("Before the step each rank holds")
    assert page.by_id("lesson-count").children == "0 of 16"


@pytest.mark.parametrize(
    ("asked", "count"), [("7", "7 of 16"), ("99", "16 of 16"), ("-3", "0 of 16"), ("x", "0 of 16")]
)
def test_the_address_names_the_step(tree: Any, asked: str, count: str) -> None:
    assert tree(layout(name="zero3", step=asked)).by_id("lesson-count").children == count


def test_the_strip_is_the_order_of_the_engine(tree: Any) -> None:
    page = tree(layout(name="zero3"))
    names = [op.children[0].children for op in page.named("zs-op")]
    assert " ".join(names) == f"start {lesson('zero3').order} end"


def test_the_current_op_is_marked_in_strip_and_schedule(tree: Any) -> None:
    page = tree(layout(name="zero3", step="7"))
    current = [getattr(op, "aria-current") for op in page.named("zs-op")]
    assert current.index("step") == 7
    (bar,) = [b for b in page.named("zs-bar") if getattr(b, "aria-current") == "step"]
    assert getattr(bar, "aria-label") == "B2, 3.02 ms"


def test_there_is_a_card_a_gpu_with_a_cell_a_layer_and_kind(tree: Any) -> None:
    page = tree(layout(name="zero3"))
    assert [getattr(card, "aria-label") for card in page.named("zs-gpu")] == [
        "GPU 0",
        "GPU 1",
        "GPU 2",
    ]
    assert len(page.named("zs-cell")) == 3 * 3 * 4


def test_cells_say_what_they_hold(tree: Any) -> None:
    page = tree(layout(name="zero3", step="2"))
    labels = [getattr(cell, "aria-label") for cell in page.named("zs-cell")]
    assert "GPU 1, layer 0, parameters: all parts, the others' gathered" in labels
    assert "GPU 1, layer 1, parameters: own part only" in labels


def test_each_gpu_marks_its_own_part(tree: Any) -> None:
    cells = [c for c in tree(layout(name="zero3")).named("zs-cell")
             if getattr(c, "data-column") == "parameters"]  # fmt: skip
    own = [[part.className == "own" for part in cell.children] for cell in cells]
    assert own[0] == [True, False, False]
    assert own[-1] == [False, False, True]


def test_the_schedule_is_to_scale_and_small(tree: Any) -> None:
    bars = tree(layout(name="zero3")).named("zs-bar")
    assert len(bars) == 15
    ends = [float(b.style["left"][:-1]) + float(b.style["width"][:-1]) for b in bars]
    assert max(ends) == pytest.approx(100, abs=0.01)
    assert bars[0].style == {"left": "0.0000%", "width": "6.7562%"}  # AG0: 1.575 of 23.31 ms


def test_the_formula_has_its_numbers_filled_in(tree: Any) -> None:
    text = tree(layout(name="zero3")).text
    assert "12,599,296 B" in text
    assert "The simulated run sent 12.6 MB, exactly that." in text


def test_the_three_questions_are_asked(tree: Any) -> None:
    text = tree(layout(name="zero3")).text
    for question in lesson("zero3").questions:
        assert question.ask in text
        assert question.answer in text


def test_an_unknown_lesson_is_a_sentence_with_the_known_ones(tree: Any) -> None:
    page = tree(layout(name="zero-3"))
    assert "did you mean 'zero3'?" in page.text
    assert [link for link in page.hrefs() if link.startswith("/learn/")] == [
        "/learn/zero3",
        "/learn/zero2",
        "/learn/zero1",
        "/learn/ddp",
    ]


@pytest.mark.parametrize("name", list(LESSONS))
def test_all_states_are_shipped_once(name: str) -> None:
    shipped = steps(lesson(name))
    told = lesson(name)
    assert len(shipped["states"]) == len(told.states)
    n_cells = len(shipped["columns"]) * len(shipped["units"])
    for state in shipped["states"]:
        assert len(state["cells"]) == n_cells
        assert set(state["cells"]) <= set(WORDS)
        assert 0 < sum(state["shares"]) <= 100.01
        assert all(0 <= cell < n_cells for cell in state["hot"])


def test_the_highest_memory_bar_is_full() -> None:
    shares = [sum(state["shares"]) for state in steps(lesson("zero3"))["states"]]
    assert max(shares) == pytest.approx(100, abs=0.01)
