"""Predicted beside measured: real ranks on links of known rates, after one calibration run at another.

Run it with `python benchmarks/lab.py` (paced links, anywhere) or `--lab` (network namespaces, root or a
user namespace). It calibrates on one ZeRO-3 run at a rate of its own, then runs every schedule at every
rate and predicts each from the calibration alone. On a machine that does other things, too, prefix it
with `chrt -f 10`. Bars: the median error, and how many pairs of schedules stand in the right order.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from statistics import median
from typing import Final

from zerosim.analysis.steps import complete_steps, slowest_window
from zerosim.hardware.calibration import Calibration
from zerosim.scenario import Scenario, run
from zerosim.trace import Trace
from zerosim.units import read_rate
from zerosim.validation.run_calibration import calibrated
from zerosim_runtime.lab.run import run_lab
from zerosim_runtime.lab.shape import Shape
from zerosim_runtime.launch import trace

MODEL: Final = {
    "model": "gpt",
    "layers": 4,
    "hidden": 192,
    "heads": 4,
    "vocab": 512,
    "seq": 64,
    "micro_batch": 4,
}
SCHEDULES: Final = {
    "zero1": "schedule=zero1",
    "zero2": "schedule=zero2",
    "zero3, prefetch 0": "prefetch=0",
    "zero3, prefetch 1": "prefetch=1",
    "zero3, prefetch 1, two queues": "prefetch=1 communicators=2",
}
CALIBRATION: Final = "prefetch=1"
"""Some of its gathers run beside computing, and some do not."""
CALIBRATE_AT: Final = {2: 600, 4: 300}
"""Mbit/s by ranks: a rate that is not predicted, and at which two cores still fill the links."""
STEPS: Final = 12
BARS: Final = {2: {100: 0.06, 200: 0.06, 400: 0.12}, 4: {100: 0.12, 200: 0.12}}
"""The largest median error, by ranks and Mbit/s."""
RIGHT_PAIRS: Final = 0.9
APART: Final = 0.01
"""Schedules whose measured steps differ by less are no pair: which comes first is noise."""


@dataclass(frozen=True, slots=True)
class Row:
    """One run: Mbit/s, seconds of its step as predicted and as measured."""

    n_ranks: int
    rate: int
    schedule: str
    predicted_s: float
    measured_s: float

    @property
    def error(self) -> float:
        """Of the prediction, relative to what was measured."""
        return self.predicted_s / self.measured_s - 1


@dataclass(frozen=True, slots=True)
class Bench:
    """How to run: in the lab or on paced links, at which rate to calibrate."""

    lab: bool
    calibrate_at: int
    nodes: int
    per_node: int

    def measured(self, words: str, rate: int) -> Trace:
        """A run of real ranks at `rate` Mbit/s."""
        scenario = Scenario.from_dict(
            {
                "name": "lab-gpt",
                "workload": MODEL,
                "cluster": {"name": "lab", "ranks_per_node": self.per_node},
                "numerics": {"dtype": "float32", "optimizer": "adamw"},
            }
        ).with_set([*words.split(), f"world_size={self.nodes * self.per_node}"])
        if self.lab:
            shape = Shape(self.nodes, self.per_node, read_rate(f"{rate}Mbit"))
            return run_lab(scenario, shape, steps=STEPS, scatter="all-to-all")
        return trace(
            scenario,
            nproc=self.nodes * self.per_node,
            steps=STEPS,
            backend=f"paced:{rate}Mbit",
            scatter="all-to-all",
        )

    def rows(self, rates: Sequence[int], schedules: Sequence[str]) -> Iterator[Row]:
        """All rates and schedules, predicted after one calibration run."""
        constants = calibrated([self.measured(CALIBRATION, self.calibrate_at)])
        for rate in rates:
            for name in schedules:
                seen = self.measured(SCHEDULES[name], rate)
                n_ranks = self.nodes * self.per_node
                yield Row(n_ranks, rate, name, predicted_s(seen, constants), step_s(seen))


def predicted_s(seen: Trace, constants: Calibration) -> float:
    """Seconds of a step of the scenario that a run carried out, by the simulator with `constants`."""
    assert seen.meta.scenario is not None
    scenario = Scenario.from_dict(seen.meta.scenario)
    cluster = replace(scenario.cluster, calibration=constants.to_dict())
    return step_s(run(replace(scenario, cluster=cluster)))


def step_s(run_: Trace) -> float:
    """The median of a run's steps but the first, each on its slowest rank, in seconds."""
    steady = [step for step in complete_steps(run_) if step > 1]
    windows = [slowest_window(run_, step) for step in steady]
    return median(w.end_ns - w.start_ns for w in windows if w is not None) / 1e9


def right_pairs(rows: Sequence[Row]) -> tuple[int, int]:
    """Pairs of schedules at one rate that the prediction has in the measured order, of how many."""
    pairs = [
        (a, b)
        for a, b in combinations(rows, 2)
        if (a.n_ranks, a.rate) == (b.n_ranks, b.rate)
        and abs(a.measured_s / b.measured_s - 1) > APART
    ]
    right = [(a.predicted_s < b.predicted_s) == (a.measured_s < b.measured_s) for a, b in pairs]
    return sum(right), len(pairs)


def calibration_rate(n_ranks: int, asked: int | None) -> int:
    """Mbit/s of the calibration run."""
    return asked or CALIBRATE_AT.get(n_ranks, min(CALIBRATE_AT.values()))


def report(rows: Sequence[Row], *, lab: bool, asked: int | None) -> tuple[str, bool]:
    """The table with its bars, in Markdown, and whether all bars are met."""
    where = "network namespaces" if lab else "paced links"
    rates = {n: calibration_rate(n, asked) for n in dict.fromkeys(row.n_ranks for row in rows)}
    lines = [
        *(
            f"{n} ranks: calibrated on one run of ZeRO-3 at {rate} Mbit/s, on {where}."
            for n, rate in rates.items()
        ),
        "",
        "| ranks | Mbit/s | schedule | predicted | measured | error |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    lines += [
        f"| {r.n_ranks} | {r.rate} | {r.schedule} | {r.predicted_s * 1e3:.0f} ms "
        f"| {r.measured_s * 1e3:.0f} ms | {r.error:+.1%} |"
        for r in rows
    ]
    lines += ["", "| ranks | Mbit/s | median error | bar | |", "| --- | --- | --- | --- | --- |"]
    met = True
    for n_ranks, rate in dict.fromkeys((r.n_ranks, r.rate) for r in rows):
        error = median(abs(r.error) for r in rows if (r.n_ranks, r.rate) == (n_ranks, rate))
        bar = BARS[n_ranks].get(rate, 0.12)
        met &= error <= bar
        lines.append(
            f"| {n_ranks} | {rate} | {error:.1%} | {bar:.0%} | {'met' if error <= bar else 'MISSED'} |"
        )
    right, of = right_pairs(rows)
    met &= right >= RIGHT_PAIRS * of
    lines += ["", f"{right} of {of} pairs of schedules stand in the right order (bar: 90 %)."]
    return "\n".join(lines), met


def main() -> int:
    """Run everything, print the report; the exit code says whether all bars are met."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--lab", action="store_true", help="network namespaces in place of paced links"
    )
    parser.add_argument(
        "--quick", action="store_true", help="two ranks at 100 Mbit/s, three schedules"
    )
    parser.add_argument("--nodes", type=int, action="append", help="nodes (2, then 4)")
    parser.add_argument("--ranks-per-node", type=int, default=1)
    parser.add_argument(
        "--rate", type=int, action="append", help="Mbit/s (100, 200; 400 of 2 ranks)"
    )
    parser.add_argument(
        "--calibrate-at", type=int, help="Mbit/s of the calibration run (600; 300 of 4 ranks)"
    )
    parser.add_argument("--report", type=Path, help="write the tables here, too")
    asked = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    began, rows = time.monotonic(), []
    for nodes in asked.nodes or ((2,) if asked.quick else (2, 4)):
        n_ranks = nodes * asked.ranks_per_node
        at = calibration_rate(n_ranks, asked.calibrate_at)
        bench = Bench(asked.lab, at, nodes, asked.ranks_per_node)
        usual = (100,) if asked.quick else (100, 200, 400) if n_ranks == 2 else (100, 200)
        schedules = list(SCHEDULES)[1:4] if asked.quick else list(SCHEDULES)
        for row in bench.rows(asked.rate or usual, schedules):
            print(row, f"{row.error:+.1%}", file=sys.stderr, flush=True)
            rows.append(row)
    text, met = report(rows, lab=asked.lab, asked=asked.calibrate_at)
    load = os.getloadavg()[0]
    text += f"\n\n{os.cpu_count()} cores ({platform.machine()}), load {load:.1f}; "
    text += f"{time.monotonic() - began:.0f} s in all."
    print(text)
    if asked.report is not None:
        asked.report.write_text(text + "\n")
    return 0 if met else 1


if __name__ == "__main__":
    raise SystemExit(main())
