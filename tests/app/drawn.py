"""A run to draw: small, regular, of equal ranks, with every time known in advance."""

from __future__ import annotations

from typing import Any

from zerosim.trace import Meta, RankClass, StepWindow, Trace, make_trace

RANKS, LAYERS = 8, 12


def run_of(name: str, slowdown: float) -> Trace:
    """A small ZeRO-3-like run, two steps; all ranks equal, rows of each; one memory counter."""
    spans: list[tuple[Any, ...]] = []
    samples: list[tuple[Any, ...]] = []
    windows = []
    for rank in range(RANKS):
        t = 0
        for step in (1, 2):
            began = t
            for layer in range(LAYERS):
                key = step * LAYERS + layer
                gather, compute = 700 + 13 * layer, int((900 + 17 * layer) * slowdown)
                spans.append(
                    (rank, "all_gather", "all_gather", f"AG{layer}", layer, t, t + gather, key)
                )
                t += gather
                spans.append((rank, "compute", "forward", f"F{layer}", layer, t, t + compute, None))
                samples.append((t, rank, "memory.allocated", 1_000 * (layer + 1)))
                t += compute + 3
            windows.append(StepWindow(rank, step, began, t))
    names = ("rank", "stream", "kind", "name", "unit", "start_ns", "end_ns", "collective")
    columns: dict[str, list[Any]] = {n: [s[i] for s in spans] for i, n in enumerate(names)}
    columns["unit"] = [str(unit) for unit in columns["unit"]]
    counters = {
        n: [s[i] for s in samples] for i, n in enumerate(("time_ns", "rank", "counter", "value"))
    }
    classes = (RankClass(0, ((0, RANKS - 1),)),)
    meta = Meta(name, "simulated", RANKS, classes=classes, steps=tuple(windows))
    return make_trace(columns, meta, counters)
