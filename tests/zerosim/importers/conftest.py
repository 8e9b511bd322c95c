"""Hand-made Chrome traces for the importer tests, and the shared real ones where they are at hand."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

SHARED = Path(__file__).parents[4] / "shared" / "traces"
BASE_NS = 1_759_300_074_000_000_000
"""The quarter's start that a profiler of autumn 2025 counts from."""


@dataclass
class Chrome:
    """A Kineto file in the making: times in µs since BASE_NS; each event gets what a profiler writes."""

    rank: int | None = 0
    world_size: int = 2
    events: list[dict[str, Any]] = field(default_factory=list)
    header: dict[str, Any] = field(default_factory=dict)

    def slice(
        self,
        category: str,
        name: str,
        start: object,
        length: object,
        *,
        thread: tuple[object, object] = (100, 100),
        **args: object,
    ) -> dict[str, Any]:
        """Add a complete event; `args` names have `_` for blanks."""
        event = {
            "ph": "X",
            "cat": category,
            "name": name,
            "pid": thread[0],
            "tid": thread[1],
            "ts": start,
            "dur": length,
            "args": {key.replace("_", " "): value for key, value in args.items()},
        }
        self.events.append(event)
        return event

    def step(self, number: int, start: float, length: float) -> None:
        """Add a ProfilerStep."""
        self.slice("user_annotation", f"ProfilerStep#{number}", start, length)

    def kernel(
        self, name: str, start: object, length: object, *, launched: float | None, **args: object
    ) -> dict[str, Any]:
        """Add a kernel on stream 7 and the call that launched it (None: before the recording)."""
        correlation = len(self.events) + 1
        if launched is not None:
            self.slice("cuda_runtime", "cudaLaunchKernel", launched, 5, correlation=correlation)
        category = str(args.pop("category", "kernel"))
        stream = args.pop("stream", 7)
        return self.slice(
            category,
            name,
            start,
            length,
            thread=(0, stream),
            **{"device": 0, "stream": stream, "correlation": correlation, **args},
        )

    def collective(
        self, name: str, start: float, length: float, *, launched: float | None, **args: object
    ) -> dict[str, Any]:
        """Add an NCCL kernel on stream 20 with metadata: bfloat16, 4 in, 8 out, group `0` of 2."""
        known: dict[str, object] = {
            "Collective name": name,
            "In msg nelems": 4,
            "Out msg nelems": 8,
            "Group size": 2,
            "dtype": "BFloat16",
            "Process Group Name": "0",
            "Process Group Ranks": "[0, 1]",
            **args,
        }
        return self.kernel(
            f"ncclDevKernel_{name}", start, length, launched=launched, stream=20, **known
        )

    def document(self) -> dict[str, Any]:
        """The whole file as a profiler nests it."""
        info = {"backend": "nccl", "world_size": self.world_size, "pg_config": []}
        if self.rank is not None:
            info["rank"] = self.rank
        return {
            "schemaVersion": 1,
            "deviceProperties": [{"id": 0, "name": "Unit GPU"}],
            "distributedInfo": info,
            "baseTimeNanoseconds": BASE_NS,
            "traceEvents": self.events,
            **self.header,
        }

    def write(self, path: Path) -> Path:
        """Write it as plain JSON."""
        path.write_text(json.dumps(self.document()))
        return path


@pytest.fixture
def chrome() -> type[Chrome]:
    """The class that makes Kineto files."""
    return Chrome


@pytest.fixture
def base_ns() -> int:
    """What hand-made traces count from."""
    return BASE_NS


@pytest.fixture
def shared() -> Path:
    """The folder of real traces."""
    if not SHARED.is_dir():
        pytest.skip("needs the shared traces")
    return SHARED


@pytest.fixture
def two_steps() -> Chrome:
    """Two steps of 1000 µs: each an all-gather (300), a GEMM (400, 200 of it beside), 200 alone."""
    trace = Chrome()
    for number, start in ((5, 1000), (6, 2000)):
        trace.step(number, start, 1000)
        trace.collective("_allgather_base", start + 100, 300, launched=start + 50)
        trace.kernel("gemm", start + 200, 400, launched=start + 150)
        trace.collective("_reduce_scatter_base", start + 700, 200, launched=start + 650)
    return trace
