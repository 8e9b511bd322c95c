"""The lessons: three equal layers on three ranks, on round numbers that can be checked by hand."""

from __future__ import annotations

from typing import Any, Final

_WORKLOAD: Final = {"model": "uniform", "layers": 3, "hidden": 768, "micro_batch": 64}
_LAYER_BYTES: Final = (768 * 768 + 768) * 4


def _lesson(schedule: dict[str, Any]) -> dict[str, Any]:
    return {
        "workload": _WORKLOAD,
        "schedule": schedule,
        "cluster": {"name": "classroom", "world_size": 3},
        "numerics": {"dtype": "float32"},
    }


PRESETS: Final[dict[str, dict[str, Any]]] = {
    "lesson-ddp": _lesson({"name": "ddp", "bucket_bytes": _LAYER_BYTES}),
    "lesson-fsdp1": _lesson({"name": "fsdp1"}),
    "lesson-zero1": _lesson({"name": "zero1"}),
    "lesson-zero2": _lesson({"name": "zero2"}),
    "lesson-zero3": _lesson({"name": "zero3"}),
}
