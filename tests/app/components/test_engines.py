"""Engines: each is told of in a paragraph, and its page of the docs has a heading for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from zerosim.schedules import SCHEDULES
from zerosim_app.components.engines import OTHERS, TOLD, choices, maker_of

DOCS = Path(__file__).parents[3] / "docs"


@pytest.mark.parametrize("schedule", list(TOLD))
def test_the_docs_say_more_of_every_engine_that_is_told_of(schedule: str) -> None:
    page = (DOCS / TOLD[schedule].page).read_text(encoding="utf-8")
    assert f"\n## {schedule}\n" in page
    assert schedule in SCHEDULES


def test_schedules_are_offered_in_groups_with_their_summaries() -> None:
    offered = choices(SCHEDULES)
    assert [group["group"] for group in offered] == [
        "Textbook",
        "PyTorch",
        "DeepSpeed",
        "ColossalAI",
        "Megatron-LM",
    ]
    named = {item["value"] for group in offered for item in group["items"]}
    assert named == set(SCHEDULES)
    assert offered[2]["items"][0] == {
        "value": "deepspeed-1",
        "label": "deepspeed-1",
        "says": "DeepSpeed: flat optimizer slices",
    }


def test_a_schedule_that_nobody_told_of_is_among_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(TOLD, "ddp")
    assert maker_of("ddp") == OTHERS
    assert choices(["ddp"])[-1]["group"] == OTHERS
