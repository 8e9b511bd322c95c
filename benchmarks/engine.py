"""How fast the engine is: ratios to a bare SimPy timeout loop of the same run, each with its bar.

`python benchmarks/engine.py` takes about half a minute and exits 1 if a bar is missed. Ratios are of
CPU time, the shortest of several rounds in which everything takes its turn, so that a machine that
is busy, or changes its pace, changes both sides. The limits in seconds are for a quiet machine with
two cores; a busy one stretches wall time, so the CPU time of the cold start stands beside it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import simpy

ROOT: Final = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from zerosim.engine import EQUAL, Variation  # noqa: E402 - the repository may not be installed
from zerosim.engine.events import run as run_events  # noqa: E402 - same
from zerosim.engine.folding import Folded, fold, unfolded  # noqa: E402 - same
from zerosim.engine.maxplus import solve  # noqa: E402 - same
from zerosim.engine.program import Int, Program, timed  # noqa: E402 - same
from zerosim.engine.record import Recording, record  # noqa: E402 - same
from zerosim.engine.variation import durations  # noqa: E402 - same
from zerosim.scenario import Scenario, cluster_of, load_scenario, plan_of, run  # noqa: E402 - same

BASE_EVENTS: Final = 50_000
TURN_S: Final = 0.1
MOST_RUNS: Final = 20
Job = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Sizes:
    """What to measure on: the big and the small world, the layers, and how often."""

    ranks: int = 16_384
    few_ranks: int = 64
    layers: int = 128
    unfolded_ranks: int = 64
    beside_layers: int = 40
    micro_batches: int = 16
    rounds: int = 12
    cold_starts: int = 3


@dataclass(frozen=True, slots=True)
class Figure:
    """A measured figure and its bar: at least or at most; no bar for what only informs."""

    name: str
    value: float
    unit: str = ""
    at_least: float | None = None
    at_most: float | None = None

    @property
    def passed(self) -> bool:
        """Whether the figure is on the right side of its bars."""
        low = self.at_least is None or self.value >= self.at_least
        return low and (self.at_most is None or self.value <= self.at_most)

    @property
    def line(self) -> str:
        """The figure as a line of a table."""
        bar = "" if self.at_least is None else f">= {self.at_least:g}"
        bar = bar if self.at_most is None else f"<= {self.at_most:g}"
        verdict = "" if not bar else "pass" if self.passed else "FAIL"
        return f"{self.name:58} {self.value:10.3f} {self.unit:3} {bar:8} {verdict}".rstrip()


def bare_timeouts() -> None:
    """The base: one process that waits `BASE_EVENTS` times."""
    env = simpy.Environment()

    def waiting() -> Generator[simpy.Event, object, None]:
        for _ in range(BASE_EVENTS):
            yield env.timeout(1)

    env.process(waiting())
    env.run()


def shortest(jobs: dict[str, Job], rounds: int, clock: Callable[[], float]) -> dict[str, float]:
    """Seconds of each job, the shortest of `rounds` in which every job has its turn.

    A turn is a few runs, until a tenth of a second has passed: the first finds cold caches.
    """
    best = dict.fromkeys(jobs, float("inf"))
    for _ in range(rounds):
        for name, job in jobs.items():
            turn = clock()
            for _ in range(MOST_RUNS):
                began = clock()
                job()
                best[name] = min(best[name], clock() - began)
                if clock() - turn > TURN_S:
                    break
    return best


ALONE: Final = ("sm_contention=false", "memory_contention=false")
"""The bare engine's bars; kernels that are slower beside collectives have one of their own."""


def scenario_of(sizes: Sizes, ranks: int, words: Sequence[str] = ()) -> Scenario:
    """The trillion-parameter GPT on so many ranks."""
    return load_scenario("gpt-1t", [f"world_size={ranks}", f"layers={sizes.layers}", *words])


def contended(sizes: Sizes) -> Scenario:
    """FSDP2 on 64 H100, its kernels slower beside collectives: some 7,000 ops."""
    words = [f"layers={sizes.beside_layers}", f"micro_batches={sizes.micro_batches}"]
    beside = ["sm_contention=true", "memory_contention=true"]
    return load_scenario("llama2-13b", ["schedule=fsdp2", "world_size=64", *words, *beside])


def event_job(program: Program, *, fluid: bool = False) -> Job:
    """Folding and a SimPy run of a program with equal ranks."""

    def job() -> None:
        folded = fold(program, EQUAL)
        run_events(program, folded, durations(program, EQUAL, folded.representatives), fluid=fluid)

    return job


def every_rank(program: Program, variation: Variation, engine: Callable[..., object]) -> Job:
    """A run of a program with each rank for itself; what each op takes is drawn beforehand."""
    folded = unfolded(program)
    given = durations(program, variation, folded.representatives)
    return lambda: engine(program, folded, given)


def unfolded_events(program: Program, folded: Folded, given: list[Int | int]) -> object:
    """SimPy without sharing of links."""
    return run_events(program, folded, given, fluid=False)


def engine_figures(sizes: Sizes) -> list[Figure]:
    """The engine's ratios to the base."""
    big, small, few = (
        scenario_of(sizes, n, ALONE) for n in (sizes.ranks, sizes.few_ranks, sizes.unfolded_ranks)
    )
    plan, cluster = plan_of(big), cluster_of(big)
    program = timed(plan, cluster)
    folded = fold(program, EQUAL)
    times = solve(program, folded, durations(program, EQUAL, folded.representatives))
    recording = Recording("benchmark", "simpy", "nccl", {})
    seconds = shortest(
        {
            "base": bare_timeouts,
            "folded": event_job(program),
            "folded, few ranks": event_job(timed(plan_of(small), cluster_of(small))),
            "fluid": event_job(program, fluid=True),
            "numpy, same": every_rank(program, EQUAL, solve),
            "numpy, different": every_rank(program, Variation(jitter=0.05), solve),
            "plan": lambda: plan_of(big),
            "build": lambda: timed(plan, cluster),
            "record": lambda: record(plan, program, folded, times, recording),
        },
        sizes.rounds,
        time.process_time,
    )
    alone = timed(plan_of(few), cluster_of(few))
    apart = shortest(
        {"base": bare_timeouts, "unfolded": every_rank(alone, EQUAL, unfolded_events)},
        max(1, sizes.rounds // 4),
        time.process_time,
    )
    base, n_ops = BASE_EVENTS / seconds["base"], len(program.ops)
    rank_ops, few_ops = n_ops * sizes.ranks, len(alone.ops) * sizes.unfolded_ranks
    run_s = seconds["folded"]
    return [
        Figure("bare SimPy timeouts a second, thousands", base / 1000, "k"),
        Figure("folded SimPy, ops/s ÷ base", n_ops / run_s / base, at_least=0.25),
        Figure(
            f"folded time at {sizes.ranks} ÷ at {sizes.few_ranks} ranks",
            run_s / seconds["folded, few ranks"],
            at_most=1.1,
        ),
        Figure(
            "folded SimPy with fluid, ops/s ÷ base", n_ops / seconds["fluid"] / base, at_least=0.07
        ),
        Figure(
            f"unfolded SimPy, {sizes.unfolded_ranks} ranks, rank-ops/s ÷ base",
            few_ops / apart["unfolded"] / (BASE_EVENTS / apart["base"]),
            at_least=0.12,
        ),
        Figure(
            "numpy, all ranks same, rank-ops/s ÷ base",
            rank_ops / seconds["numpy, same"] / base,
            at_least=100,
        ),
        Figure(
            "numpy, all ranks different, rank-ops/s ÷ base",
            rank_ops / seconds["numpy, different"] / base,
            at_least=40,
        ),
        Figure("program build ÷ folded SimPy run", seconds["build"] / run_s, at_most=1.5),
        Figure("plan from scenario ÷ folded SimPy run", seconds["plan"] / run_s),
        Figure("recording ÷ folded SimPy run without fluid", seconds["record"] / run_s),
        Figure(
            "recording ÷ folded SimPy run, as `simulate` does both",
            seconds["record"] / seconds["fluid"],
            at_most=1.0,
        ),
    ]


def whole_figures(sizes: Sizes) -> list[Figure]:
    """From scenario to trace: warm in this process, and cold as a command."""
    big = scenario_of(sizes, sizes.ranks)
    words = [f"--set=world_size={sizes.ranks}", f"--set=layers={sizes.layers}"]
    command = [sys.executable, "-m", "zerosim", "simulate", "gpt-1t", *words, "--json"]

    def cold() -> None:
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=ROOT)

    warm = shortest({"warm": lambda: run(big)}, sizes.rounds, time.perf_counter)["warm"]
    slower = contended(sizes)
    beside = shortest({"beside": lambda: run(slower)}, sizes.rounds, time.perf_counter)["beside"]
    jobs: dict[str, Job] = {"cold": cold}
    cold_wall = shortest(jobs, sizes.cold_starts, time.perf_counter)["cold"]
    cold_cpu = shortest(jobs, sizes.cold_starts, cpu_of_children)["cold"]
    label = f"{sizes.layers} layers on {sizes.ranks} ranks"
    return [
        Figure(f"scenario to trace, {label}, warm", warm * 1000, "ms", at_most=50),
        Figure(
            f"FSDP2, {sizes.micro_batches} micro-batches, kernels beside collectives, warm",
            beside * 1000,
            "ms",
            at_most=300,
        ),
        Figure("`zerosim simulate` of it, cold, CPU", cold_cpu, "s"),
        Figure("`zerosim simulate` of it, cold, wall", cold_wall, "s", at_most=1.5),
    ]


def cpu_of_children() -> float:
    """CPU seconds of the processes that were started here and have ended."""
    used = os.times()
    return used.children_user + used.children_system


def figures(sizes: Sizes) -> list[Figure]:
    """All figures of one run."""
    return [*engine_figures(sizes), *whole_figures(sizes)]


def main() -> int:
    """Print the figures with the load of the machine; 1 if a bar is missed."""
    print(f"load {os.getloadavg()[0]:.2f}, {os.cpu_count()} cores")
    measured = figures(Sizes())
    for figure in measured:
        print(figure.line)
    print(f"load {os.getloadavg()[0]:.2f}")
    return 0 if all(figure.passed for figure in measured) else 1


if __name__ == "__main__":
    sys.exit(main())
