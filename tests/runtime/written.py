"""Records of ranks that never ran: the simulated times of a scenario, written as ranks would."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import polars as pl

from zerosim.scenario import Scenario, load_scenario, run
from zerosim.trace import Trace
from zerosim_runtime.assignment import Assignment, write_assignment
from zerosim_runtime.records import NOW

HEADER = {
    "backend": "gloo",
    "device": "CPU",
    "clock": "one",
    "perf_ns": 0,
    "unix_ns": 1_700_000_000_000_000_000,
    "host": "here",
    "torch": "2.13.0",
    "python": "3.11",
    "threads": 1,
    "pid": 1,
}


def lesson(n_ranks: int = 2, steps: int = 2) -> Scenario:
    return load_scenario("lesson-zero3", [f"world_size={n_ranks}", f"steps={steps}"])


def write_records(directory: Path, scenario: Scenario, **ahead_ns: int) -> Trace:
    """Write the simulated run of `scenario` as records; `rank_1=5` puts that rank's clock 5 ns ahead."""
    directory.mkdir(exist_ok=True)
    write_assignment(Assignment(scenario.to_dict(), "gloo", 60), directory)
    simulated = run(scenario)
    for rank in simulated.ranks:
        shift = ahead_ns.get(f"rank_{rank}", 0)
        rows = simulated.spans.filter(pl.col("rank") == rank)
        lines: list[dict[str, Any]] = [{"header": HEADER | {"rank": rank}}]
        lines += [
            {"row": [op, issued + shift, start + shift, end + shift]}
            for op, (issued, start, end) in enumerate(
                rows.select("issued_ns", "start_ns", "end_ns").iter_rows()
            )
        ]
        lines.append({"status": "finished", "message": "", "op": None, "time": shift})
        write_lines(directory, rank, lines, last_op=rows.height - 1)
    return simulated


def write_lines(
    directory: Path, rank: int, lines: list[dict[str, Any]], *, last_op: int = -1
) -> None:
    content = b"".join(orjson.dumps(line) + b"\n" for line in lines)
    (directory / f"rank-{rank}.jsonl").write_bytes(content)
    (directory / f"rank-{rank}.now").write_bytes(NOW.pack(last_op, 0))


def read_lines(directory: Path, rank: int) -> list[dict[str, Any]]:
    text = (directory / f"rank-{rank}.jsonl").read_bytes()
    return [orjson.loads(line) for line in text.splitlines()]
