"""How long `zerosim extract` takes for GPT-2 1.5B, cold, and beside torch's own count of its FLOPs.

`python benchmarks/extract.py` prints the times with the load of the machine, the extracted figures
beside torch's, and exits 1 if a bar is missed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

import orjson
import torch
from torch.utils.flop_counter import FlopCounterMode

ROOT: Final = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.engine import Figure  # noqa: E402 - the repository may not be installed
from zerosim_runtime.examples_models import gpt2_xl  # noqa: E402 - same

FACTORY: Final = "zerosim_runtime.examples_models:gpt2_xl"
SEQ: Final = 1024


def counted_by_torch() -> tuple[int, int, float]:
    """Parameters and FLOPs of the model on the meta device, and the seconds that took."""
    started = time.perf_counter()
    with torch.device("meta"):
        model, ids = gpt2_xl(), torch.empty(1, SEQ, dtype=torch.long)
    with FlopCounterMode(display=False) as counter:
        scores = model(ids)
        torch.autograd.backward([scores], [torch.ones_like(scores)])
    parameters = sum(p.numel() for p in model.parameters())
    return parameters, counter.get_total_flops(), time.perf_counter() - started


def figures() -> list[Figure]:
    """The command from its start to its answer, and what it answers against torch's."""
    started = time.perf_counter()
    command = [sys.executable, "-m", "zerosim", "extract", FACTORY, "--json"]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, cwd=ROOT)
    wall_s = time.perf_counter() - started
    answer = orjson.loads(done.stdout)
    parameters, flops, torch_s = counted_by_torch()
    return [
        Figure("`zerosim extract` of GPT-2 1.5B, cold, wall", wall_s, "s", at_most=20),
        Figure("of that, torch's own count in this process", torch_s / wall_s),
        Figure(
            "parameters against torch's, difference",
            abs(answer["n_params"] - parameters),
            at_most=0,
        ),
        Figure(
            "FLOPs against torch's, difference",
            abs(answer["model_flops"] / flops - 1),
            at_most=0.01,
        ),
    ]


def main() -> int:
    """Print the figures with the load of the machine; 1 if a bar is missed."""
    print(f"load {os.getloadavg()[0]:.2f}, {os.cpu_count()} cores")
    measured = figures()
    for figure in measured:
        print(figure.line)
    print(f"load {os.getloadavg()[0]:.2f}")
    return 0 if all(figure.passed for figure in measured) else 1


if __name__ == "__main__":
    sys.exit(main())
