"""Predicted against measured as SVG, without a browser: the drawing of docs/accuracy.md."""

from __future__ import annotations

import math
from collections.abc import Sequence
from xml.sax.saxutils import escape

from zerosim.validation.score import Scored

_SIDE, _LEFT, _TOP = 560, 64, 16
_INK, _LINE, _BAND = "#7a858f", "#a3abb3", "#8a97a5"
_TEST, _CALIB = "#4C78C8", "#C68524"
"""Mid tones: the page is read on white and on black."""


def cloud_svg(rows: Sequence[Scored]) -> str:
    """All complete rows, both axes logarithmic; the title of a point says which row it is."""
    kept = sorted((row for row in rows if row.simulatable == "yes"), key=lambda r: r.row_id)
    values = [value for row in kept for value in (row.measured_s, row.predicted_s)] or [1.0]
    low, high = math.log10(min(values)) - 0.1, math.log10(max(values)) + 0.1
    body = "".join(
        [
            *(_band(share, low, high) for share in (0.20, 0.05)),
            _axes(low, high),
            *(_point(row, low, high) for row in kept if row.split == "calib"),
            *(_point(row, low, high) for row in kept if row.split == "test"),
            _legend(),
        ]
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_LEFT + _SIDE + 16} '
        f'{_TOP + _SIDE + 48}" font-family="system-ui, sans-serif" font-size="12" '
        f'fill="{_INK}">{body}</svg>\n'
    )


def _place(value: float, low: float, high: float) -> float:
    return _SIDE * (math.log10(value) - low) / (high - low)


def _xy(measured: float, predicted: float, low: float, high: float) -> tuple[float, float]:
    return _LEFT + _place(measured, low, high), _TOP + _SIDE - _place(predicted, low, high)


def _band(share: float, low: float, high: float) -> str:
    """The strip around the diagonal within which predictions are off by at most `share`."""
    off = _SIDE * math.log10(1 + share) / (high - low)
    right, bottom = _LEFT + _SIDE, _TOP + _SIDE
    corners = (
        (_LEFT, bottom), (_LEFT, bottom - off), (right - off, _TOP), (right, _TOP),
        (right, _TOP + off), (_LEFT + off, bottom),
    )  # fmt: skip
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in corners)
    return f'<polygon points="{points}" fill="{_BAND}" opacity="0.16"/>'


def _axes(low: float, high: float) -> str:
    right, bottom = _LEFT + _SIDE, _TOP + _SIDE
    parts = [
        f'<path d="M{_LEFT} {_TOP}V{bottom}H{right}" fill="none" stroke="{_LINE}"/>',
        f'<path d="M{_LEFT} {bottom}L{right} {_TOP}" stroke="{_LINE}" stroke-dasharray="3 3"/>',
        f'<text x="{right}" y="{bottom + 40}" text-anchor="end">measured step</text>',
        f'<text x="16" y="{_TOP}" text-anchor="end" transform="rotate(-90 16 {_TOP})">predicted step</text>',
    ]
    for power in range(math.ceil(low), math.floor(high) + 1):
        x, y = _xy(10.0**power, 10.0**power, low, high)
        label = f"{10.0**power:g} s"
        parts += [
            f'<path d="M{x:.1f} {_TOP}V{bottom}M{_LEFT} {y:.1f}H{right}" stroke="{_LINE}" opacity="0.35"/>',
            f'<text x="{x:.1f}" y="{bottom + 18}" text-anchor="middle">{label}</text>',
            f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{label}</text>',
        ]
    return "".join(parts)


def _point(row: Scored, low: float, high: float) -> str:
    x, y = _xy(row.measured_s, row.predicted_s, low, high)
    told = f"{row.row_id} {row.source_id} ({row.split}): {row.ln_ratio:+.1%}"
    look = (
        f'fill="{_TEST}" opacity="0.8"'
        if row.split == "test"
        else f'fill="none" stroke="{_CALIB}" stroke-width="1.2" opacity="0.7"'
    )
    return (
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.2" {look}><title>{escape(told)}</title></circle>'
    )


def _legend() -> str:
    x, y = _LEFT + 20, _TOP + 16
    return (
        f'<circle cx="{x}" cy="{y}" r="4" fill="{_TEST}"/>'
        f'<text x="{x + 12}" y="{y + 4}">test: nothing was fitted on them</text>'
        f'<circle cx="{x}" cy="{y + 20}" r="4" fill="none" stroke="{_CALIB}" stroke-width="1.4"/>'
        f'<text x="{x + 12}" y="{y + 24}">calib: constants are fitted on them</text>'
    )
