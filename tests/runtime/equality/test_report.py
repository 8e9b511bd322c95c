"""The page of equality: a section a family, those of other families kept, and the cases counted."""

from __future__ import annotations

from pathlib import Path

from zerosim_runtime.equality.case import Case
from zerosim_runtime.equality.harness import Outcome
from zerosim_runtime.equality.report import write_report

WORKLOAD = {"model": "uniform", "layers": 3}


def outcome(family: str, name: str, difference: str | None = None) -> Outcome:
    scenario = {"workload": WORKLOAD, "schedule": {"name": family, "knob": 1}}
    return Outcome(Case(name, family, 2, scenario), 5, difference)


def test_a_case_is_a_row_with_its_options_and_its_verdict(tmp_path: Path) -> None:
    page = tmp_path / "equality.md"
    write_report(page, "ddp", {"torch": "2.13.0"}, [outcome("ddp", "cap")])
    text = page.read_text()
    assert "| `cap` | ddp knob=1 | uniform layers=3 | 2 real | 5 | yes |" in text
    assert "With torch 2.13.0." in text
    assert "1 of 1 cases are equal." in text


def test_a_family_that_was_not_run_keeps_its_section(tmp_path: Path) -> None:
    page = tmp_path / "equality.md"
    write_report(page, "fsdp2", {"torch": "2.12.0"}, [outcome("fsdp2", "old")])
    write_report(page, "ddp", {"torch": "2.13.0"}, [outcome("ddp", "a"), outcome("ddp", "b", "!")])
    text = page.read_text()
    assert text.index("## ddp") < text.index("## fsdp2")
    assert "With torch 2.12.0." in text
    assert "2 of 3 cases are equal." in text


def test_a_family_that_was_run_again_has_only_its_new_rows(tmp_path: Path) -> None:
    page = tmp_path / "equality.md"
    write_report(page, "ddp", {"torch": "2.13.0"}, [outcome("ddp", "a"), outcome("ddp", "b")])
    write_report(page, "ddp", {"torch": "2.13.0"}, [outcome("ddp", "c")])
    text = page.read_text()
    assert "`a`" not in text
    assert "1 of 1 cases are equal." in text
