"""Attributes that Dash takes but does not declare: `aria-…` and `data-…`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def wild(attributes: Mapping[str, str]) -> dict[str, Any]:
    """`attributes` for any component, as keyword arguments: `html.Div(**wild({"aria-label": …}))`."""
    return dict(attributes)
