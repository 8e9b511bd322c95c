"""Rules of time that every schedule keeps, on any workload, machine, engine and number of ranks."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from tests.properties.scenarios import EVERY_SCHEDULE, FEW, carried_out, ranks_of, records
from zerosim.scenario import Scenario, cluster_of, plan_of, run


@EVERY_SCHEDULE
@given(data=st.data())
@FEW
def test_every_op_runs_once_on_every_rank_in_issue_order(
    schedule: str, data: st.DataObject
) -> None:
    scenario, plan, _, trace = carried_out(data.draw(records(schedule)))
    n = scenario.cluster.world_size
    assert trace.spans["rank"].to_list() == [r for r in range(n) for _ in plan.ops]
    names = trace.spans["name"].cast(pl.String).to_list()
    assert names == [op.name for op in plan.ops] * n
    for _, rows in ranks_of(plan, trace):
        issued = [row[1] for row in rows]
        assert issued == sorted(issued)
        assert all(issue <= start <= end for _, issue, start, end in rows)


@EVERY_SCHEDULE
@given(data=st.data())
@FEW
def test_an_op_starts_when_all_it_waits_for_has_ended(schedule: str, data: st.DataObject) -> None:
    _, plan, _, trace = carried_out(data.draw(records(schedule)))
    for _, rows in ranks_of(plan, trace):
        for op, _, start, _ in rows:
            assert all(rows[before][3] <= start for before in op.after)


@EVERY_SCHEDULE
@given(data=st.data())
@FEW
def test_neither_a_stream_nor_a_communicator_does_two_things_at_once(
    schedule: str, data: st.DataObject
) -> None:
    _, plan, _, trace = carried_out(data.draw(records(schedule)))
    for _, rows in ranks_of(plan, trace):
        lanes = defaultdict(list)
        for op, _, start, end in rows:
            lanes["stream", op.stream].append((start, end))
            if op.communicator is not None:
                lanes["communicator", op.communicator].append((start, end))
        for lane in lanes.values():
            assert all(end <= start for (_, end), (start, _) in pairwise(lane))


@EVERY_SCHEDULE
@given(data=st.data())
@FEW
def test_a_collective_moves_bytes_only_once_all_members_have_arrived(
    schedule: str, data: st.DataObject
) -> None:
    _, _, program, trace = carried_out(data.draw(records(schedule)))
    moved = trace.spans.filter(pl.col("collective").is_not_null())
    for (i,), rows in moved.group_by("collective"):
        # Groups of one shape are numbered one after the other, the ops of each anew.
        alone = program.ops[int(str(i)) % len(program.ops)].duration_ns
        last = max(rows["start_ns"].to_list())
        assert last >= max(rows["issued_ns"].to_list())
        assert min(rows["end_ns"].to_list()) >= last + alone
        assert rows["end_ns"].n_unique() == 1


@EVERY_SCHEDULE
@given(data=st.data())
@FEW
def test_a_step_is_as_long_as_its_busiest_stream_and_no_longer_than_one_thing_after_the_other(
    schedule: str, data: st.DataObject
) -> None:
    record = data.draw(records(schedule, equal=True))
    _, plan, program, trace = carried_out(record)
    per_stream: dict[str, int] = defaultdict(int)
    shortest: dict[str, int] = defaultdict(int)
    for op, op_times in zip(plan.ops, program.ops, strict=True):
        per_stream[op.stream] += op_times.duration_ns
        uneven = op_times.by_rank or ((1, op_times.duration_ns),)
        shortest[op.stream] += min(took for _, took in uneven)
    host = sum(op.issue_ns for op in program.ops)
    makespan = max(trace.spans["end_ns"].to_list())
    # Shared links round a transfer's end up, once for itself and once for the one beside it.
    rounding = 2 * len(plan.ops) if trace.meta.engine == "simpy" else 0
    assert makespan >= max(shortest.values())
    assert makespan <= sum(per_stream.values()) + host + rounding


@EVERY_SCHEDULE
@given(data=st.data())
@FEW
def test_a_faster_machine_never_lengthens_the_step_where_nothing_contends(
    schedule: str, data: st.DataObject
) -> None:
    record = data.draw(records(schedule, engine="maxplus"))
    cluster = cluster_of(Scenario.from_dict(record))
    before = run(Scenario.from_dict(record))
    faster = data.draw(
        st.sampled_from(
            [
                {"intra_busbw": cluster.intra.busbw * 1.7},
                {"inter_busbw": cluster.inter.busbw * 3},
                {"peak_flops": cluster.device.peak_flops * 1.3},
                {"memory_bandwidth": cluster.device.memory_bandwidth * 2},
                {"issue_s": cluster.host.issue_s / 2},
            ]
        )
    )
    record["cluster"] |= faster
    after = run(Scenario.from_dict(record))
    for slow, fast in zip(before.meta.steps, after.meta.steps, strict=True):
        assert fast.end_ns <= slow.end_ns


@EVERY_SCHEDULE
@given(data=st.data())
@FEW
def test_steps_are_alike_once_the_schedule_is_steady(schedule: str, data: st.DataObject) -> None:
    record = data.draw(records(schedule))
    record["run"]["steps"] = 5
    plan = plan_of(Scenario.from_dict(record))
    steady = [op.name for op in plan.ops if op.step == plan.steady_from]
    assert steady
    for step in range(plan.steady_from, 6):
        assert [op.name for op in plan.ops if op.step == step] == steady


@EVERY_SCHEDULE
@given(data=st.data())
@FEW
def test_a_plan_of_fewer_steps_is_the_beginning_of_a_longer_one(
    schedule: str, data: st.DataObject
) -> None:
    record = data.draw(records(schedule))
    record["run"]["steps"] = 3
    longer = [op.name for op in plan_of(Scenario.from_dict(record)).ops]
    record["run"]["steps"] = 1
    shorter = [op.name for op in plan_of(Scenario.from_dict(record)).ops]
    assert shorter == longer[: len(shorter)]
    assert len(shorter) < len(longer)
