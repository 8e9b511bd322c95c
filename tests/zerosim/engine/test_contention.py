"""Kernels beside collectives, by hand: waves on the SMs that are left, memory bandwidth, the flat tax."""

from __future__ import annotations

from dataclasses import replace

import pytest

from zerosim.cluster import Cluster, Contention, Topology
from zerosim.collectives import Transfer
from zerosim.engine import EQUAL, kernels_overlap, simulate
from zerosim.engine.contention import (
    FULL_SPEED,
    WHOLE,
    Kernels,
    Taken,
    kernels_of,
    slowed,
    taken_by,
    tiles_of,
    waves_ratio,
)
from zerosim.engine.events import run
from zerosim.engine.folding import fold
from zerosim.engine.maxplus import solve
from zerosim.engine.program import Int, Program, Timed, Times
from zerosim.engine.stretched import MAX_LENGTH, settle
from zerosim.engine.variation import durations
from zerosim.errors import ScenarioError
from zerosim.hardware import MACHINES
from zerosim.kinds import Kind
from zerosim.plan import Axis, Op, Plan, PlanWriter
from zerosim.workload import Matmul, Work

MANY = Kernels(memory=0.0, tiles=((0, 1.0),))
ONE_WAVE = Kernels(memory=0.0, tiles=((132, 1.0),))
COPY = Kernels(memory=1.0, tiles=())
CTAS = Taken(sms=24)


@pytest.mark.parametrize(
    ("sms", "ctas", "longer"),
    [(132, 24, 1.222), (132, 16, 1.138), (108, 24, 1.286), (148, 24, 1.194)],
)
def test_many_tiles_take_longer_by_the_sms_that_are_gone(
    sms: int, ctas: int, longer: float
) -> None:
    assert waves_ratio(0, sms, ctas) == pytest.approx(longer, abs=5e-4)
    assert waves_ratio(1000 * sms * (sms - ctas), sms, ctas) == pytest.approx(longer, abs=5e-4)


@pytest.mark.parametrize(("sms", "ctas"), [(132, 24), (132, 16), (108, 24), (148, 24)])
def test_a_kernel_of_one_full_wave_takes_two(sms: int, ctas: int) -> None:
    assert waves_ratio(sms, sms, ctas) == 2.0


def test_a_kernel_that_fits_beside_the_collective_takes_no_longer() -> None:
    assert waves_ratio(108, 132, 24) == 1.0
    assert waves_ratio(109, 132, 24) == 2.0
    assert waves_ratio(5, 4, 4) == 2.5  # one SM is always left: 5 waves for 2


def test_a_product_has_a_tile_for_every_128_rows_and_columns() -> None:
    assert tiles_of(Matmul(m=2048, k=5120, n=1024)) == 16 * 8
    assert tiles_of(Matmul(m=129, k=64, n=1)) == 2


def test_an_op_is_split_into_memory_traffic_tiles_and_launches() -> None:
    device = replace(CLUSTER.device, launch_s=100e-9, memory_bandwidth=1e9, memory_efficiency=0.5)
    work = Work((Matmul(128, 1, 256), Matmul(128, 1, 128, count=2)), kernels=2)
    flops = 4 * 2 * 128 * 128 * 2  # twice that of the products: the other half is unknown
    op = Op(0, "F", Kind.FORWARD, "compute", flops=flops, memory_bytes=100, work=work)
    found = kernels_of(op, 1000, device)
    assert found is not None
    # 100 B at 0.5 B/ns are 200 of 1000 ns, two launches 200 more; of the 600 left half is known.
    assert found.memory == pytest.approx(0.2)
    assert dict(found.tiles) == pytest.approx({2: 0.15, 1: 0.15, 0: 0.3})
    assert kernels_of(op, 0, device) is None


def test_a_ring_reads_and_writes_what_it_moves() -> None:
    moved = Transfer(10, (("link", 75),), wire_ns=75, ctas=16)
    op = Op(0, "AG", Kind.ALL_GATHER, "all_gather", elements=100, dtype="int8", group="world",
            communicator="world")  # fmt: skip
    device = replace(CLUSTER.device, memory_bandwidth=10e9)
    cluster = replace(CLUSTER, device=device, contention=Contention(sms=True, memory=True))
    # 75 B in 75 ns, twice: 2 of 10 B a ns.
    assert taken_by(op, Axis("world", 4), moved, cluster) == Taken(16, round(0.2 * WHOLE))
    unknown = replace(moved, ctas=0)  # the topology knows
    assert taken_by(op, Axis("world", 4), unknown, cluster) == Taken(24, round(0.2 * WHOLE))
    assert taken_by(op, Axis("world", 1), Transfer(0, ()), cluster) is None


@pytest.mark.parametrize(
    ("kernels", "taken", "longer"),
    [
        (MANY, Taken(24), 132 / 108),
        (ONE_WAVE, Taken(24), 2.0),
        (MANY, Taken(0, WHOLE // 2), 1.0),
        (COPY, Taken(24, 0), 1.0),
        (COPY, Taken(24, WHOLE // 5), 1.25),
        (COPY, Taken(24, 5 * WHOLE), 10.0),  # a tenth of the bandwidth is always left
        (Kernels(0.5, ((0, 0.25),)), Taken(66, WHOLE // 2), 1 + 0.5 + 0.25),
    ],
)
def test_each_part_of_an_op_takes_longer_by_what_is_taken_from_it(
    kernels: Kernels, taken: Taken, longer: float
) -> None:
    assert FULL_SPEED / slowed(kernels, taken, 132) == pytest.approx(longer, rel=1e-5)


def carried_out(*ops: Timed, contention: Contention, fluid: bool = True) -> Times:
    program = Program(2, ops, (Axis("world", 2),), {"link": 1e9}, contention=contention, sms=132)
    folded = fold(program, EQUAL)
    return run(program, folded, durations(program, EQUAL, folded.representatives), fluid=fluid)


def gather(after: tuple[int, ...], ns: int, taken: Taken, issue_ns: int = 0) -> Timed:
    moved = Transfer(0, (("link", ns),), wire_ns=ns)
    return Timed(1, after, issue_ns, ns, axis=0, transfer=moved, taken=taken)


def kernel(ns: int, kernels: Kernels) -> Timed:
    return Timed(0, (), 0, ns, kernels=kernels)


SMS = Contention(sms=True)


def test_a_kernel_is_slower_only_while_the_collective_runs() -> None:
    # 200 ns alone, 300 ns at 108/132 do 245.45, and 554.55 are left at 500.
    times = carried_out(kernel(1000, MANY), gather((), 300, CTAS, 200), contention=SMS)
    assert times.start[1].tolist() == [200]
    assert times.end[:, 0].tolist() == [1055, 500]


def test_a_kernel_within_a_collective_takes_longer_by_the_whole_factor() -> None:
    times = carried_out(kernel(1000, MANY), gather((), 5000, CTAS), contention=SMS)
    assert times.end[:, 0].tolist() == [1223, 5000]  # 1000 · 132/108
    times = carried_out(kernel(1000, ONE_WAVE), gather((), 5000, CTAS), contention=SMS)
    assert times.end[:, 0].tolist() == [2000, 5000]


def test_two_collectives_take_the_sms_of_both() -> None:
    other = Timed(2, (), 0, 5000, axis=0, transfer=Transfer(0, (), wire_ns=5000), taken=Taken(42))
    times = carried_out(kernel(1000, MANY), gather((), 5000, CTAS), other, contention=SMS)
    assert times.end[0].tolist() == [2000]  # 66 of 132 SMs are left


def test_a_copy_is_slower_while_bytes_move_and_not_while_a_collective_waits() -> None:
    taken = Taken(0, WHOLE // 2)
    waits = Timed(
        1, (), 0, 300, axis=0, transfer=Transfer(200, (("link", 100),), wire_ns=100), taken=taken
    )
    times = carried_out(kernel(1000, COPY), waits, contention=Contention(memory=True))
    assert times.end[0].tolist() == [1050]  # at half speed from 200 to 300


def test_two_transfers_that_share_a_link_take_no_more_memory_bandwidth_than_one() -> None:
    both = (
        gather((), 1000, Taken(0, WHOLE // 2)),
        replace(gather((), 1000, Taken(0, WHOLE // 2)), stream=2),
    )
    memory = Contention(memory=True)
    assert carried_out(kernel(400, COPY), *both, contention=memory).end[0].tolist() == [800]
    apart = carried_out(kernel(400, COPY), *both, contention=memory, fluid=False)
    assert apart.end[:, 0].tolist() == [1300, 1000, 1000]  # a tenth is left: 100 of 400 ns by 1000


def test_the_flat_tax_is_taken_from_all_kernels_alike_and_once() -> None:
    both = (gather((), 5000, Taken()), replace(gather((), 5000, Taken()), stream=2))
    times = carried_out(kernel(850, ONE_WAVE), *both, contention=Contention(tax=0.15))
    assert times.end[0].tolist() == [1000]


def test_a_collective_holds_its_sms_while_it_waits_for_the_others() -> None:
    # Rank 0 arrives at once, rank 1 at 400; until 500 rank 0 computes with 66 of 132 SMs.
    ops = (
        Timed(2, (), 0, 1, by_rank=((1, 0), (1, 400))),
        gather((0,), 100, Taken(66)),
        kernel(1000, MANY),
    )
    program = Program(
        2, ops, (Axis("world", 2),), {"link": 1e9}, (((1, 0), (1, 400)),), contention=SMS, sms=132
    )
    folded = fold(program, EQUAL)
    times = run(program, folded, durations(program, EQUAL, folded.representatives), fluid=True)
    assert times.end[1].tolist() == [500, 500]
    assert times.end[2].tolist() == [1250, 1050]


def test_kernels_that_run_beside_no_collective_are_seen_to_be_alone() -> None:
    def overlap(*ops: Timed) -> bool:
        program = Program(1, ops, (Axis("world", 1),), {}, contention=SMS, sms=132)
        return kernels_overlap(program, solve(program, fold(program, EQUAL), [10] * len(ops)))

    after = Timed(1, (0,), 0, 10, axis=0, taken=CTAS)
    assert not overlap(kernel(10, MANY), after)
    assert not overlap(
        Timed(1, (), 0, 10, axis=0, taken=CTAS), replace(kernel(10, MANY), after=(0,))
    )
    assert overlap(kernel(10, MANY), replace(after, after=()))
    assert not overlap(kernel(10, MANY), replace(after, after=(), taken=None))


CLUSTER = replace(
    MACHINES["classroom"].cluster(4, "float32"),  # 50 GFLOP/s, 1 GB/s
    topology=Topology("hopper", channels=12, channel_busbw=30e9, ctas=24),
)
CLUSTER = replace(CLUSTER, device=replace(CLUSTER.device, sms=132))


def overlapping_plan() -> Plan:
    writer = PlanWriter()
    writer.collective(Kind.ALL_GATHER, "0", elements=4000, dtype="int8")  # 3000 ns
    writer.compute(Kind.FORWARD, "0", flops=50_000)  # 1000 ns
    writer.collective(Kind.ALL_GATHER, "1", elements=4000, dtype="int8", after=(0,), stream="other")
    return Plan("overlapping", 4, tuple(writer.ops), (Axis("world", 4),))


def ends(cluster: Cluster, engine: str = "auto") -> tuple[str | None, list[int]]:
    trace = simulate(overlapping_plan(), cluster, engine=engine)
    return trace.meta.engine, trace.spans["end_ns"].to_list()[:3]


def test_auto_stretches_kernels_beside_a_collective_once_contention_is_on() -> None:
    assert ends(CLUSTER) == ("maxplus", [3000, 1000, 6000])
    beside = replace(CLUSTER, contention=Contention(sms=True))
    assert ends(beside) == ends(beside, "stretched") == ("stretched", [3000, 1223, 6000])
    assert ends(beside, "simpy") == ("simpy", [3000, 1223, 6000])
    assert ends(beside, "unfolded") == ("simpy", [3000, 1223, 6000])
    assert ends(beside, "maxplus") == ("maxplus", [3000, 1000, 6000])  # as if all were alone


def test_kernels_too_long_for_the_fast_path_are_simpys() -> None:
    times = Timed(0, (), 0, MAX_LENGTH, kernels=MANY), gather((), 2 * MAX_LENGTH, CTAS)
    program = Program(1, times, (Axis("world", 1),), {"link": 1e9}, contention=SMS, sms=132)
    folded = fold(program, EQUAL)
    alone: list[Int | int] = [MAX_LENGTH, 2 * MAX_LENGTH]
    assert settle(program, folded, alone, solve(program, folded, alone)) is None
    shorter: list[Int | int] = [MAX_LENGTH - 1, 2 * MAX_LENGTH]
    found = settle(program, folded, shorter, solve(program, folded, shorter))
    reference = run(program, folded, shorter, fluid=True)
    assert found is not None
    assert found.end.tolist() == reference.end.tolist()
    # Speeds are rounded to 2^-30: of ten seconds, that is some nanoseconds.
    assert found.end[0, 0] == pytest.approx((MAX_LENGTH - 1) * 132 / 108, abs=10)


def test_communicators_that_do_not_serialise_let_transfers_share_the_link() -> None:
    writer = PlanWriter()
    for stream in ("a", "b"):
        writer.collective(Kind.ALL_GATHER, stream, elements=4000, dtype="int8", stream=stream)
    plan = Plan("two", 4, tuple(writer.ops), (Axis("world", 4),))

    def two(contention: Contention) -> tuple[str | None, list[int]]:
        trace = simulate(plan, replace(CLUSTER, contention=contention))
        return trace.meta.engine, trace.spans["end_ns"].to_list()[:2]

    assert two(Contention()) == ("maxplus", [3000, 6000])
    assert two(Contention(communicators=False)) == ("simpy", [6000, 6000])
    assert two(Contention(communicators=False, links=False)) == ("maxplus", [3000, 3000])


def test_a_tax_beside_what_it_stands_for_is_refused() -> None:
    with pytest.raises(ScenarioError, match=r"cluster\.overlap_tax is 1\.0: give a share from 0"):
        Contention(tax=1.0)
    with pytest.raises(ScenarioError, match=r"cluster\.overlap_tax is 0\.15 beside sm_contention"):
        Contention(tax=0.15, memory=True)
