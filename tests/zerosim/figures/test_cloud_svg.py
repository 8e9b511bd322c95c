"""The drawing of docs/accuracy.md: a circle a complete row, named, unseen ones on top."""

from __future__ import annotations

import re
from dataclasses import replace
from xml.dom.minidom import parseString

from tests.zerosim.figures.test_scores import CALIB, ROW, SLOW
from zerosim.figures.cloud_svg import cloud_svg

FITTED = replace(CALIB, simulatable="yes")


def test_every_complete_row_is_a_circle_with_its_name() -> None:
    text = cloud_svg([ROW, SLOW, CALIB])
    titles = re.findall(r"<title>([^<]*)</title>", text)
    assert titles == ["S1 one (test): +3.9%", "S2 one (test): +40.5%"]
    parseString(text)  # noqa: S318 - our own text; raises if it is no XML


def test_no_complete_row_is_an_empty_square() -> None:
    assert "<title>" not in cloud_svg([CALIB])


def test_unseen_rows_are_drawn_last_and_filled() -> None:
    text = cloud_svg([ROW, FITTED])
    assert text.index("S3 two (calib)") < text.index("S1 one (test)")
    assert 'fill="none" stroke="#C68524"' in text


def test_a_perfect_prediction_lies_on_the_diagonal() -> None:
    text = cloud_svg([replace(ROW, predicted_s=1.0), replace(SLOW, predicted_s=10, measured_s=10)])
    places = re.findall(r'<circle cx="([\d.]+)" cy="([\d.]+)" r="3.2"', text)
    assert [float(x) - 64 + float(y) - 16 for x, y in places] == [560.0, 560.0]
