"""GPT-2 1.5B (Radford et al. 2019): 48 layers of 1,600, tied embeddings; here on two DGX H100."""

from __future__ import annotations

from typing import Any, Final

PRESETS: Final[dict[str, dict[str, Any]]] = {
    "gpt2-1.5b": {
        "workload": {
            "model": "gpt",
            "layers": 48,
            "hidden": 1600,
            "heads": 25,
            "vocab": 50257,
            "seq": 1024,
            "micro_batch": 8,
            "tied": True,
        },
        "schedule": {"name": "zero3", "prefetch": 1},
        "cluster": {"name": "dgx-h100", "world_size": 16},
        "numerics": {"dtype": "bfloat16"},
    }
}
