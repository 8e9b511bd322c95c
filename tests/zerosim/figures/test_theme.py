"""One look for all figures: templates as objects, the same margins, a reason where there is nothing."""

from __future__ import annotations

import plotly.graph_objects as go
import pytest

from zerosim.figures.palette import INK, THEMES, Theme
from zerosim.figures.theme import MARGIN, blank, nothing, template


@pytest.mark.parametrize("theme", THEMES)
def test_a_template_is_an_object_with_the_ink_of_its_theme(theme: Theme) -> None:
    made = template(theme)
    assert isinstance(made, go.layout.Template)
    assert made.layout.font.color == INK[theme]


def test_the_page_shows_through_a_figure() -> None:
    assert template("dark").layout.paper_bgcolor == "rgba(0,0,0,0)"
    assert template("light").layout.plot_bgcolor == "rgba(0,0,0,0)"


def test_figures_start_with_fixed_margins_and_axes_that_do_not_zoom() -> None:
    figure = blank("light", x="rank", y="bytes", height=280)
    assert figure.layout.margin.to_plotly_json() == MARGIN
    assert figure.layout.xaxis.fixedrange is True
    assert figure.layout.yaxis.title.text == "bytes"
    assert figure.layout.height == 280


def test_nothing_to_draw_says_why_and_draws_no_axes() -> None:
    drawn = nothing("dark", "This run has no memory samples.")
    assert drawn.sentence == "This run has no memory samples."
    assert drawn.figure.layout.annotations[0].text == drawn.sentence
    assert drawn.figure.layout.xaxis.visible is False
    assert len(drawn.figure.data) == 0
