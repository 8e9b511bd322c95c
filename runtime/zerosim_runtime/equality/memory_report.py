"""The generated page `docs/equality-memory.md` with its drawing: peaks and curves, planned and tracked."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from zerosim.units import format_bytes

_HEAD: Final = """# Peak memory beside torch's FSDPMemTracker

Written by `make equality`; not by hand.
Each pair is one step of FSDP2 (torch {version}) on fake ranks: parameters stored in float32, computed in bfloat16, reduced in float32.
The tracker counts what the real engine allocates on fake tensors; the plan is that of `zerosim extract` and the schedule `fsdp2`.
Both leave the optimizer's states out: the tracker sees them wrongly with `foreach` and under fake tensors, so they are given by arithmetic.

| model | sequences x tokens | ranks | checkpointing | tracked | planned | planned / tracked | optimizer states |
|---|---|---|---|---|---|---|---|
"""
_CURVES: Final = """
## Layer by layer

The most while each layer runs, forward then backward: tracked solid, planned dashed.

![Memory by layer, planned and tracked](equality-memory.svg)
"""
_DRAWN: Final = ("gpt2-125m", "llama2-7b")
_WIDTH, _HEIGHT, _GAP, _LEFT = 640, 150, 56, 70


def write_page(page: Path, pairs: Sequence[dict[str, Any]], version: str) -> None:
    """Write the page, and the drawing beside it."""
    page.write_text(_HEAD.format(version=version) + "".join(map(_row, pairs)) + _CURVES)
    page.with_suffix(".svg").write_text(drawing(pairs))


def _row(pair: dict[str, Any]) -> str:
    case = pair["case"]
    cells = (
        case["model"],
        f"{case['batch']} x {case['seq']}",
        str(case["world_size"]),
        case["checkpointing"],
        format_bytes(pair["tracked"]["peak_bytes"]),
        format_bytes(pair["planned_bytes"]),
        f"{pair['ratio']:.4f}",
        format_bytes(pair["optimizer_bytes"]),
    )
    return f"| {' | '.join(cells)} |\n"


def drawing(pairs: Sequence[dict[str, Any]]) -> str:
    """Curves of some pairs as SVG, one below the other."""
    drawn = [pair for pair in pairs if pair["case"]["model"] in _DRAWN]
    height = len(drawn) * (_HEIGHT + _GAP) + 20
    body = "".join(_panel(pair, 24 + i * (_HEIGHT + _GAP)) for i, pair in enumerate(drawn))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH + _LEFT + 20} {height}" '
        f'font-family="system-ui, sans-serif" font-size="11" fill="#5b6670">{body}</svg>\n'
    )


def _panel(pair: dict[str, Any], top: int) -> str:
    tracked, planned = dict(pair["tracked"]["curve"]), dict(pair["planned_curve"])
    names = [name for name in tracked if name in planned]
    most = max(*(tracked[n] for n in names), *(planned[n] for n in names))
    case = pair["case"]
    title = f"{case['model']}, {case['world_size']} ranks, checkpointing {case['checkpointing']}"
    bottom = top + _HEIGHT
    solid = _line([tracked[n] for n in names], most, bottom)
    dashed = _line([planned[n] for n in names], most, bottom)
    return (
        f'<text x="{_LEFT}" y="{top - 8}" font-weight="600">{title}</text>'
        f'<text x="{_LEFT - 8}" y="{top + 4}" text-anchor="end">{format_bytes(most)}</text>'
        f'<text x="{_LEFT - 8}" y="{bottom}" text-anchor="end">0</text>'
        f'<path d="M{_LEFT} {top}V{bottom}H{_LEFT + _WIDTH}" fill="none" stroke="#c9cfd5"/>'
        f'<text x="{_LEFT}" y="{bottom + 14}">{names[0]}</text>'
        f'<text x="{_LEFT + _WIDTH}" y="{bottom + 14}" text-anchor="end">{names[-1]}</text>'
        f'<path d="{solid}" fill="none" stroke="#0B7285" stroke-width="2"/>'
        f'<path d="{dashed}" fill="none" stroke="#9C36B5" stroke-width="2" stroke-dasharray="5 4"/>'
    )


def _line(values: Sequence[int], most: int, bottom: int) -> str:
    step = _WIDTH / max(1, len(values) - 1)
    points = (
        f"{_LEFT + i * step:.1f} {bottom - _HEIGHT * value / most:.1f}"
        for i, value in enumerate(values)
    )
    return "M" + "L".join(points)
