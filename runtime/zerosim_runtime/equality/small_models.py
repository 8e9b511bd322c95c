"""The small models that engines with recordings are observed on, as workload sections."""

from __future__ import annotations

from typing import Any, Final

UNIFORM: Final[dict[str, Any]] = {"model": "uniform", "layers": 3, "hidden": 32, "micro_batch": 2}
ODD: Final = UNIFORM | {"hidden": 21}
GPT: Final[dict[str, Any]] = {
    "model": "gpt",
    "layers": 2,
    "hidden": 16,
    "heads": 2,
    "vocab": 40,
    "seq": 6,
    "micro_batch": 2,
}
LLAMA: Final = GPT | {"model": "llama"}
