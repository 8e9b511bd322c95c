"""Programs: what each op takes, on which rank, and what it waits for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from zerosim.cluster import Host
from zerosim.engine import Variation
from zerosim.engine.program import timed
from zerosim.engine.variation import durations
from zerosim.hardware import MACHINES
from zerosim.kinds import Kind
from zerosim.plan import Axis, Op, Plan, PlanWriter
from zerosim.scenario import cluster_of, load_scenario, plan_of, run
from zerosim.workload import Work

N_RANKS = 4
CLUSTER = MACHINES["classroom"].cluster(N_RANKS, "float32")  # 50 GFLOP/s, 1 GB/s


def small_plan() -> Plan:
    """Two collectives on two streams but one communicator, and two kernels beside them."""
    writer = PlanWriter()
    writer.compute(Kind.FORWARD, "0", flops=50)  # 1 ns
    writer.collective(Kind.ALL_GATHER, "0", elements=4, dtype="int8")  # 3 ns
    writer.compute(Kind.BACKWARD, "0", flops=5000, after=(1,))  # 100 ns
    writer.collective(Kind.REDUCE_SCATTER, "0", elements=8, dtype="int8", after=(2,))  # 6 ns
    return Plan("p", N_RANKS, tuple(writer.ops), (Axis("world", N_RANKS),))


def test_ops_take_what_the_cost_models_say() -> None:
    assert [op.duration_ns for op in timed(small_plan(), CLUSTER).ops] == [1, 3, 100, 6]


def test_an_op_waits_for_its_stream_and_its_communicator_too() -> None:
    program = timed(small_plan(), CLUSTER)
    assert [sorted(op.after) for op in program.ops] == [[], [], [0, 1], [1, 2]]


def test_an_op_that_takes_no_time_costs_the_host_nothing() -> None:
    machine = MACHINES["dgx-h100"].cluster(N_RANKS, "float32")
    cluster = replace(machine, host=Host(issue_s=5e-6, collective_s=22e-6))
    writer = PlanWriter()
    writer.compute(Kind.FORWARD, "0", flops=1)
    writer.compute(Kind.FILL, "0")
    writer.collective(Kind.ALL_GATHER, "0", elements=4, dtype="int8")
    plan = Plan("p", N_RANKS, tuple(writer.ops), (Axis("world", N_RANKS),))
    assert [op.issue_ns for op in timed(plan, cluster).ops] == [5_000, 0, 22_000]


def test_an_op_of_several_kernels_costs_the_host_each() -> None:
    machine = MACHINES["dgx-h100"].cluster(N_RANKS, "float32")
    cluster = replace(machine, host=Host(issue_s=5e-6, collective_s=22e-6))
    writer = PlanWriter()
    writer.compute(Kind.FORWARD, "0", flops=1, work=Work(kernels=10))
    plan = Plan("p", N_RANKS, tuple(writer.ops), (Axis("world", N_RANKS),))
    assert [op.issue_ns for op in timed(plan, cluster).ops] == [50_000]


def test_a_step_of_small_kernels_is_as_long_as_their_issues() -> None:
    words = ["layers=4", "hidden=64", "heads=2", "seq=16", "micro_batch=1", "schedule=fsdp2"]
    scenario = load_scenario("gpt2-1.5b", [*words, "world_size=8", "vocab=100"])
    ops = timed(plan_of(scenario), cluster_of(scenario)).ops
    kernels = sum(op.duration_ns for op in ops if op.axis is None)
    issues = sum(op.issue_ns for op in ops)
    assert issues > kernels
    # What is left when the last op is issued: a reduce-scatter, its divisions and the update.
    ended = np.max(run(scenario).spans["end_ns"].to_numpy())
    assert issues < ended < 1.1 * issues


def rows(variation: Variation, ranks: tuple[int, ...] = (0, 1, 2, 3)) -> list[list[int]]:
    program = timed(small_plan(), CLUSTER)
    given = durations(program, variation, ranks)
    return [np.broadcast_to(np.asarray(d), len(ranks)).tolist() for d in given]


def test_equal_ranks_take_equal_times() -> None:
    assert rows(Variation()) == [[1] * 4, [3] * 4, [100] * 4, [6] * 4]


def test_a_straggler_computes_longer_and_communicates_as_ever() -> None:
    assert rows(Variation(speed=((2, 1.3),))) == [
        [1, 1, 1, 1],
        [3, 3, 3, 3],
        [100, 100, 130, 100],
        [6, 6, 6, 6],
    ]


def test_jitter_of_a_rank_does_not_depend_on_which_ranks_are_asked_for() -> None:
    jitter = Variation(jitter=0.3, seed=5)
    every = rows(jitter)
    assert rows(jitter, (3, 1)) == [[row[3], row[1]] for row in every]
    assert len(set(every[2])) == N_RANKS


def test_another_seed_draws_another_jitter() -> None:
    assert rows(Variation(jitter=0.3, seed=5)) != rows(Variation(jitter=0.3, seed=6))


def test_durations_given_outright_are_taken() -> None:
    assert rows(Variation(durations=((2, (7, 8, 9, 10)),)))[2] == [7, 8, 9, 10]


@pytest.mark.parametrize(
    ("variation", "differs"),
    [
        (Variation(), False),
        (Variation(speed=((0, 2.0),)), False),
        (Variation(jitter=0.1), True),
        (Variation(durations=((0, (1,)),)), True),
    ],
)
def test_only_jitter_and_given_durations_make_every_rank_its_own(
    variation: Variation, differs: bool
) -> None:
    assert variation.every_rank_differs is differs


def test_an_op_of_a_group_that_crosses_nodes_takes_the_networks_time() -> None:
    cluster = MACHINES["classroom"].cluster(16, "float32")
    op = Op(
        0,
        "AR0",
        Kind.ALL_REDUCE,
        "all_reduce",
        elements=160,
        dtype="int8",
        group="world",
        communicator="world",
    )
    # 2 passes: inside a node 2·160·15/16 = 300 B at 1 B/ns, between nodes 2·160·8/16 at 0.25 B/ns.
    program = timed(Plan("p", 16, (op,), (Axis("world", 16),)), cluster)
    assert program.ops[0].duration_ns == 640
