"""DeepSpeed ZeRO-3 against the orders measured beside this repository, with every size."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final

import pytest

from tests.zerosim.schedules.deepspeed3.models import model
from zerosim.kinds import Kind
from zerosim.numerics import Numerics
from zerosim.plan import Plan
from zerosim.schedules.deepspeed3 import DeepSpeed3Options, deepspeed_3

MEASURED: Final = Path(__file__).parents[5] / "shared" / "design" / "measured_orders.txt"
_CASE: Final = re.compile(r"CASE (\{.*\})")


def measured() -> list[tuple[str, list[str]]]:
    """(setting, a line for each iteration) of the ZeRO-3 cases."""
    if not MEASURED.exists():
        return []
    found: list[tuple[str, list[str]]] = []
    for line in MEASURED.read_text().split("## torch DDP")[0].splitlines():
        case = _CASE.fullmatch(line)
        if case is not None:
            found.append((case[1], []))
        elif line.startswith("iter"):
            found[-1][1].append(line.partition(": ")[2])
    return [(case, lines) for case, lines in found if json.loads(case)["zero"]["stage"] == 3]


def planned(case: dict[str, Any]) -> Plan:
    knobs = {k: v for k, v in case["zero"].items() if k != "stage"}
    workload = model(case.get("n", 3), bias=case.get("bias", False), recompute="ck" in case)
    # The layers are products with their bias added after, not torch's Linear.
    options = DeepSpeed3Options(
        **knobs, memory_efficient_linear=False, use_reentrant=case.get("ck") == "re"
    )
    return deepspeed_3(workload, 2, Numerics(), options, steps=3)


def word(kind: Kind, name: str, elements: int | None) -> str:
    """An op as the measurement writes it."""
    if kind is Kind.ALL_GATHER and elements is not None:
        return f"AG[out={elements},in={elements // 2}]"
    if kind is Kind.REDUCE_SCATTER and elements is not None:
        return f"RS[out={elements // 2},in={elements}]"
    if kind is Kind.ALL_REDUCE:
        return f"AR[{elements}]"
    return name.replace("R", "F")


def iteration(plan: Plan, step: int, *, markers_first: bool) -> list[str]:
    """One step; its marks stand where hooks begin, so a B comes before what it recomputes."""
    skipped = (Kind.COPY, Kind.FILL, Kind.WAIT, Kind.BROADCAST, Kind.OPTIMIZER)
    words = [
        word(op.kind, op.name, op.elements)
        for op in plan.ops
        if op.step == step and op.kind not in skipped
    ]
    text = " ".join(words)
    return (re.sub(r"(F\d) (B\d)", r"\2 \1", text) if markers_first else text).split()


@pytest.mark.skipif(
    not MEASURED.exists(), reason="the measured orders are not beside the repository"
)
def test_every_measured_iteration_of_zero3_comes_out_with_its_sizes() -> None:
    cases = measured()
    assert len(cases) >= 10
    for text, lines in cases:
        case = json.loads(text)
        plan = planned(case)
        for step, line in enumerate(lines, start=1):
            expected = [w for w in line.split() if not w.startswith("|")]
            assert iteration(plan, step, markers_first=case.get("ck") == "no") == expected, text
