"""The scenarios that come with zerosim, by name; one file a family."""

from __future__ import annotations

from typing import Any, Final

from zerosim.registry import Registry
from zerosim.scenario.presets import gpt, gpt2, lesson, llama2, ownership

PRESETS: Final[Registry[dict[str, Any]]] = Registry(
    "scenario preset",
    lesson.PRESETS | gpt2.PRESETS | llama2.PRESETS | gpt.PRESETS | ownership.PRESETS,
)

__all__ = ["PRESETS"]
