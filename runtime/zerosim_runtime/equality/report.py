"""The generated page `docs/equality.md`: one section a family; a run replaces those it ran."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from zerosim_runtime.equality.case import Case
from zerosim_runtime.equality.harness import Outcome

_HEAD: Final = """# Equality

Written by `make equality`; not by hand.
Each case runs a real engine, writes down every collective of every watched rank (kind, place among the layers' forwards and backwards, process group, elements, dtype), and compares it with the plan of the same scenario.
DeepSpeed, ColossalAI and Megatron-LM were observed in environments of their own; `tests/golden` holds what they did, with their versions, and the pages of their schedules say how to observe them anew.
Real ranks are processes over Gloo; fake ranks are torch's fake process group in one process, watched as the first and as the last rank.
"""
_ROW: Final = re.compile(r"^\| `.*\| (yes|\*\*no\*\*) \|$", re.MULTILINE)


def write_report(
    page: Path, family: str, versions: Mapping[str, str | None], outcomes: Sequence[Outcome]
) -> None:
    """Put the outcomes of one family into the page, beside the other families' sections."""
    sections = _sections(page.read_text()) if page.exists() else {}
    sections[family] = _section(family, versions, outcomes)
    body = "\n".join(sections[name] for name in sorted(sections))
    rows = _ROW.findall(body)
    total = f"\n{rows.count('yes')} of {len(rows)} cases are equal.\n\n"
    page.write_text(_HEAD + total + body)


def _sections(text: str) -> dict[str, str]:
    parts = re.split(r"^(?=## )", text, flags=re.MULTILINE)[1:]
    return {part.splitlines()[0].removeprefix("## "): part.rstrip("\n") + "\n" for part in parts}


def _section(family: str, versions: Mapping[str, str | None], outcomes: Sequence[Outcome]) -> str:
    named = ", ".join(f"{name} {version}" for name, version in versions.items())
    lines = [
        f"## {family}\n",
        f"With {named}.\n",
        "| case | schedule and options | model | ranks | collectives of a rank | equal |",
        "|---|---|---|---|---|---|",
        *(_row(outcome) for outcome in outcomes),
    ]
    return "\n".join(lines) + "\n"


def _row(outcome: Outcome) -> str:
    case = outcome.case
    schedule = dict(case.scenario["schedule"])
    name = schedule.pop("name")
    ranks = f"{case.world_size} {'fake' if case.fake else 'real'}"
    equal = "yes" if outcome.difference is None else "**no**"
    cells = (f"`{case.name}`", _options(name, schedule), _model(case), ranks)
    return f"| {' | '.join(cells)} | {outcome.collectives} | {equal} |"


def _options(name: str, options: Mapping[str, object]) -> str:
    return " ".join([name, *(f"{key}={value}" for key, value in options.items())])


def _model(case: Case) -> str:
    workload = case.scenario.get("workload", {})
    words = [str(workload.get("model", "uniform"))]
    shape = case.extra.get("shape", {})
    words += [f"{key}={value}" for key, value in (workload | shape).items() if key != "model"]
    return " ".join(words)
