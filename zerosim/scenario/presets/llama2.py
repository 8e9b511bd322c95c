"""Llama 2 (Touvron et al., arXiv 2307.09288, and the models' published configurations)."""

from __future__ import annotations

from typing import Any, Final


def _llama(
    layers: int, hidden: int, heads: int, kv_heads: int, ffn: int, world_size: int
) -> dict[str, Any]:
    return {
        "workload": {
            "model": "llama",
            "layers": layers,
            "hidden": hidden,
            "heads": heads,
            "kv_heads": kv_heads,
            "ffn": ffn,
            "vocab": 32000,
            "seq": 4096,
            "micro_batch": 1,
        },
        "schedule": {"name": "zero3", "prefetch": 1},
        "cluster": {"name": "dgx-h100", "world_size": world_size},
        "numerics": {"dtype": "bfloat16"},
    }


PRESETS: Final[dict[str, dict[str, Any]]] = {
    "llama2-7b": _llama(32, 4096, 32, 32, 11008, 8),
    "llama2-13b": _llama(40, 5120, 40, 40, 13824, 16),
    "llama2-70b": _llama(80, 8192, 64, 8, 28672, 64),
}
