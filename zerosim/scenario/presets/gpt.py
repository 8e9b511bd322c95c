"""GPT-3-like models of the ZeRO and Megatron papers: 7.5B, 100B and a trillion parameters."""

from __future__ import annotations

from typing import Any, Final


def _gpt(
    layers: int, hidden: int, heads: int, seq: int, vocab: int, cluster: str, world_size: int
) -> dict[str, Any]:
    return {
        "workload": {
            "model": "gpt",
            "layers": layers,
            "hidden": hidden,
            "heads": heads,
            "vocab": vocab,
            "seq": seq,
            "micro_batch": 1,
            "tied": True,
        },
        "schedule": {"name": "zero3", "prefetch": 1},
        "cluster": {"name": cluster, "world_size": world_size},
        "numerics": {"dtype": "float16" if cluster == "dgx-2" else "bfloat16"},
    }


PRESETS: Final[dict[str, dict[str, Any]]] = {
    # Narayanan et al., arXiv 2104.04473, table 1 (sizes); arXiv 1910.02054 (64 ranks).
    "gpt-7.5b": _gpt(36, 4096, 32, 2048, 51200, "dgx-2", 64),
    # arXiv 1910.02054, table 4: 100B on 400 V100.
    "gpt-100b": _gpt(125, 8192, 64, 1024, 50257, "dgx-2", 400),
    # arXiv 2104.04473, table 1.
    "gpt-1t": _gpt(128, 25600, 160, 2048, 51200, "dgx-h100", 1024),
}
