"""The docs say what the code does: code runs, names have headings, generated pages are up to date."""

from __future__ import annotations

import re
import tomllib
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import typer.testing

from zerosim import errors
from zerosim.analysis.summary import summarize
from zerosim.cli import VERBS, application
from zerosim.kinds import Kind
from zerosim.scenario import PRESETS, Scenario, load_scenario, plan_of, run
from zerosim.scenario.codec import SECTIONS
from zerosim.schedules import SCHEDULES
from zerosim.trace import SPANS
from zerosim.units import format_bytes, format_ns

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
SCHEDULE_PAGES = [ROOT / "docs/schedules.md", *sorted((ROOT / "docs/schedules").glob("*.md"))]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)


def headings(page: Path) -> set[str]:
    return set(re.findall(r"^#+ `?([^`\n]+)`?$", page.read_text(), re.MULTILINE))


@pytest.mark.parametrize("document", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_python_blocks_of_a_page_run_from_top_to_bottom(document: Path) -> None:
    names: dict[str, Any] = {}
    for block in blocks(document, "python"):
        exec(compile(block, str(document), "exec"), names)  # noqa: S102 - our own docs


@pytest.mark.parametrize("document", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(document: Path) -> None:
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", document.read_text()):
        assert (document.parent / target).exists(), f"{document.name} links to {target}"


@pytest.mark.parametrize("document", PAGES[1:], ids=lambda p: str(p.relative_to(ROOT)))
def test_a_line_of_a_page_holds_one_sentence(document: Path) -> None:
    text = re.sub(r"^```.*?^```", "", document.read_text(), flags=re.MULTILINE | re.DOTALL)
    prose = (line for line in text.splitlines() if not line.startswith(("#", "|")))
    lines = (re.sub(r"`[^`]*`", "x", line) for line in prose)
    assert [line for line in lines if re.search(r"[a-z0-9)][.!?] [A-Zx]", line)] == []


def test_every_schedule_has_its_heading_and_every_option_its_line() -> None:
    pages = {page: headings(page) for page in SCHEDULE_PAGES}
    for name in SCHEDULES:
        (page,) = (page for page, found in pages.items() if name in found)
        for option in fields(SCHEDULES[name].options):
            assert f"| `{option.name}` |" in page.read_text(), f"{name}: {option.name}"


def test_every_page_of_schedules_is_linked_from_the_first() -> None:
    text = (ROOT / "docs/schedules.md").read_text()
    assert all(f"(schedules/{page.name})" in text for page in SCHEDULE_PAGES[1:])


def test_the_orders_in_the_schedules_pages_are_those_of_the_plans() -> None:
    text = "".join(page.read_text() for page in SCHEDULE_PAGES)
    for preset in ("lesson-ddp", "lesson-zero1", "lesson-zero2", "lesson-zero3"):
        assert f"`{preset}`: `{plan_of(load_scenario(preset)).order}`" in text
    for word in ("keep_last=false", "prefetch=1"):
        assert f"`{word}`: `{plan_of(load_scenario('lesson-zero3', [word])).order}`" in text


def test_the_schedules_at_their_defaults_are_what_they_simulate(
    docs: Path, update_docs: bool
) -> None:
    rows = ["| schedule | sent | hidden | step | peak |", "|---|---|---|---|---|"]
    for name in SCHEDULES:
        found = summarize(run(load_scenario("gpt2-1.5b", [f"schedule={name}", "steps=2"])))
        sent, peak = format_bytes(found["bytes_sent"]), format_bytes(found["peak_bytes"])
        step = format_ns(found["step_ns"])
        rows.append(f"| `{name}` | {sent} | {found['overlap']:.0%} | {step} | {peak} |")
    begin, end = "<!-- defaults: written by `make docs` -->\n", "<!-- end -->"
    before, _, rest = (docs / "schedules.md").read_text().partition(begin)
    table = "\n".join(rows)
    text = f"{before}{begin}\n{table}\n\n{end}{rest.partition(end)[2]}"
    _check(docs / "schedules.md", text, write=update_docs)


def test_every_page_is_linked_from_the_index() -> None:
    text = (ROOT / "docs/index.md").read_text()
    every = (ROOT / "docs").rglob("*.md")
    pages = {p.relative_to(ROOT / "docs").as_posix() for p in every if p.parent.name != "adr"}
    assert {page for page in pages if f"({page})" not in text} == {"index.md"}


def test_every_error_has_its_heading() -> None:
    classes = {
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, errors.ZerosimError)
    }
    # Read, not imported: most of the runtime needs torch.
    for path in (ROOT / "runtime").rglob("*.py"):
        named = re.findall(r"^class (\w+)\((\w+Error)\):", path.read_text(), re.MULTILINE)
        classes |= {name for name, base in named if base in classes}
    assert classes == headings(ROOT / "docs/errors.md") - {"Errors"}


def test_every_field_of_a_scenario_is_explained() -> None:
    text = (ROOT / "docs/scenarios.md").read_text()
    for section, record in SECTIONS.items():
        assert section in headings(ROOT / "docs/scenarios.md")
        for field in fields(record):
            assert f"`{field.name}`" in text, f"{section}.{field.name}"


def test_every_preset_is_listed() -> None:
    text = (ROOT / "docs/scenarios.md").read_text()
    assert all(f"`{name}`" in text for name in PRESETS)


def test_the_toml_in_the_docs_is_a_scenario() -> None:
    (block,) = blocks(ROOT / "docs/scenarios.md", "toml")
    scenario = Scenario.from_dict(tomllib.loads(block))
    assert scenario.cluster.world_size == 64


def test_every_column_of_a_span_is_explained() -> None:
    text = (ROOT / "docs/trace.md").read_text()
    assert all(f"`{column}`" in text for column in SPANS)


def test_every_kind_is_in_the_importers_page_or_the_glossary() -> None:
    text = (ROOT / "docs/importers.md").read_text()
    assert all(f"`{kind}`" in text for kind in Kind)


def test_the_adrs_are_numbered_without_gaps() -> None:
    numbers = [int(p.name[:4]) for p in sorted((ROOT / "docs/adr").glob("*.md"))]
    assert numbers == list(range(1, len(numbers) + 1))


def test_the_cli_page_is_what_the_help_says(docs: Path, update_docs: bool) -> None:
    runner = typer.testing.CliRunner()
    parts = ["# The command\n\nGenerated from the help: `make docs` writes it anew.\n"]
    for arguments in [[], *([verb] for verb in VERBS)]:
        result = runner.invoke(
            application(arguments),
            [*arguments, "--help"],
            prog_name="zerosim",
            env={"COLUMNS": "100"},
        )
        assert result.exit_code == 0, result.output
        title = " ".join(["zerosim", *arguments])
        parts.append(f"## {title}\n\n```text\n{result.output.strip()}\n```\n")
    _check(docs / "cli.md", "\n".join(parts), write=update_docs)


def _check(page: Path, text: str, *, write: bool) -> None:
    if write:
        page.write_text(text)
    assert page.read_text() == text, f"{page.name} is old: run `make docs`"
