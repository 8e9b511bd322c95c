"""The page about accuracy and its drawing: what the shipped scores say, with a part by hand kept."""

from __future__ import annotations

import re
from pathlib import Path

from zerosim.figures.cloud_svg import cloud_svg
from zerosim.hardware.calibration import shipped
from zerosim.validation.published import ablations, published
from zerosim.validation.report import page
from zerosim.validation.report.page import BEGIN, END

REMEDY = "is old: run `make docs`"


def by_hand(text: str) -> str:
    """What people wrote into the page."""
    found = re.search(rf"{BEGIN}\n(.*?){END}", text, re.DOTALL)
    return "" if found is None else found[1]


def test_the_accuracy_page_is_what_the_scores_say(docs: Path, update_docs: bool) -> None:
    path = docs / "accuracy.md"
    before = path.read_text() if path.exists() else ""
    text = page(published(), ablations(), shipped(), by_hand=by_hand(before))
    drawing = cloud_svg(published().steps.rows)
    if update_docs:
        path.write_text(text)
        path.with_suffix(".svg").write_text(drawing)
    assert path.read_text() == text, f"{path.name} {REMEDY}"
    assert path.with_suffix(".svg").read_text() == drawing, f"accuracy.svg {REMEDY}"


def test_fitted_and_unseen_rows_share_no_table(docs: Path) -> None:
    text = (docs / "accuracy.md").read_text()
    sections = dict(re.findall(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL))
    unseen = sections["Rows that nothing was fitted on"] + sections["Where it errs"]
    assert "| test: all complete rows" in unseen
    assert "| calib" not in unseen
    assert "| calib: " in sections["Rows that constants are fitted on"]
    assert "| test: " not in sections["Rows that constants are fitted on"]
