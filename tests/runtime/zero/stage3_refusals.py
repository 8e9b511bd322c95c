"""What stage 3 refuses, or survives, on real ranks: each function returns what it saw."""

from __future__ import annotations

from collections.abc import Callable

REFUSALS: dict[str, Callable[[], str]] = {}
