"""Who owns the optimizer states: the cases of ColossalAI's issue about an uneven load, and their cure."""

from __future__ import annotations

from typing import Any, Final

_FIVE: Final = "; ".join(["4096x4096"] * 5)
_MLP: Final = "linear1: 256x128, 256; drop_linear: 256x256, 256; linear2: 512x256, 512"
"""The issue's MlpModel."""


def _case(sizes: str, schedule: str, **options: str) -> dict[str, Any]:
    return {
        "workload": {"model": "parameters", "sizes": sizes, "micro_batch": 4, "seq": 1024},
        # What LowLevelZeroPlugin sets.
        "schedule": {
            "name": schedule,
            "reduce_bucket_size_in_m": 12,
            "overlap_communication": True,
            **options,
        },
        "cluster": {"name": "dgx-a100", "world_size": 8},
        "run": {"steps": 2},
    }


PRESETS: Final[dict[str, dict[str, Any]]] = {
    "five-parameters-old": _case(_FIVE, "colossalai-2-old"),
    "five-parameters": _case(_FIVE, "colossalai-2"),
    "mlp-old": _case(_MLP, "colossalai-2-old"),
    "mlp": _case(_MLP, "colossalai-2"),
    "mlp-drop": _case(_MLP, "colossalai-2", drop_layers="drop_linear"),
}
