"""Runs once more: hand-made ones whose answer is known, simulated ones on other clusters."""

from pathlib import Path

import polars as pl
import pytest

import zerosim
from zerosim.errors import InputError, TraceFileError
from zerosim.kinds import Kind
from zerosim.replay import Replay, replay_of, retime
from zerosim.scenario import cluster_of, load_scenario, run
from zerosim.store import load_run
from zerosim.trace import Clock, Group, Meta, Trace, make_trace

ENGINES = ("ddp", "zero2", "zero3", "fsdp1", "fsdp2", "deepspeed-3", "megatron", "colossalai-2")


def _row(
    rank: int, kind: str, name: str, times: tuple[int, int, int], **more: object
) -> dict[str, object]:
    issued, start, end = times
    base = {"rank": rank, "kind": kind, "name": name, "stream": "compute", "step": 1}
    return base | {"issued_ns": issued, "start_ns": start, "end_ns": end} | more


def _gather(rank: int, times: tuple[int, int, int], collective: int = 0) -> dict[str, object]:
    sized = {"elements": 8, "nbytes": 32, "dtype": "float32", "group": "world"}
    return _row(
        rank, "all_gather", "AG0", times, stream="nccl", unit="0", collective=collective, **sized
    )


def _run(rows: list[dict[str, object]], **meta: object) -> Trace:
    known = {"groups": (Group("world", 2, (0, 1)),), "clock": Clock(aligned=True, error_ns=0)}
    return make_trace(pl.DataFrame(rows), Meta("run", "imported", 2, **(known | meta)))  # type: ignore[arg-type]


def _ends(trace: Trace, rank: int = 0) -> list[tuple[str, int]]:
    shown = trace.spans.filter(pl.col("rank") == rank, pl.col("kind") != "host")
    return list(zip(shown["name"].cast(pl.String), shown["end_ns"], strict=True))


def _again(trace: Trace, *words: str) -> Trace:
    cluster = cluster_of(load_scenario("lesson-zero3", ["world_size=2", *words]))
    return retime(trace, replay_of(trace), cluster, priced=bool(words))


def test_a_run_without_changes_takes_what_it_took() -> None:
    rows = [
        row
        for rank, late in ((0, 0), (1, 5))
        for row in (
            _gather(rank, (late, late, 25)),
            _row(rank, "forward", "F0", (late + 1, 25, 35), unit="0"),
        )
    ]

    again = _again(_run(rows))

    assert _ends(again, 0) == [("AG0", 25), ("F0", 35)]
    assert _ends(again, 1) == [("AG0", 25), ("F0", 35)]


def test_a_layer_waits_for_its_unit_even_if_it_never_had_to() -> None:
    rows = [
        row
        for rank in (0, 1)
        for row in (
            _gather(rank, (0, 0, 10)),
            _row(rank, "other", "warm-up", (1, 1, 50)),
            _row(rank, "forward", "F0", (2, 50, 60), unit="0"),
        )
    ]
    # 32 bytes between 2 ranks at 0.16 byte/ns: 16 bytes take 100 ns.
    again = _again(_run(rows), "cluster.intra_busbw=1.6e8")

    assert _ends(again) == [("AG0", 100), ("other", 50), ("F0", 110)]


@pytest.mark.parametrize("engine", ["gloo", "paced:400Mbit", "fsdp2 on gloo"])
def test_what_a_host_on_gloo_waited_for_is_no_work_of_its_own(engine: str) -> None:
    rows = [
        row
        for rank in (0, 1)
        for row in (
            _gather(rank, (0, 0, 100)) | {"stream": "world"},
            _row(rank, "forward", "F0", (110, 110, 120), unit="0"),
        )
    ]
    # 16 bytes at 1.6 byte/ns take 10 ns; of the 110 ns that the host did not compute, 10 were its own.
    again = _again(_run(rows, engine=engine), "cluster.intra_busbw=1.6e9")

    assert _ends(again) == [("AG0", 10), ("F0", 30)]


def test_a_late_rank_keeps_the_others_waiting_and_is_not_made_later() -> None:
    rows = [
        *(_gather(0, (0, 0, 90)), _row(0, "forward", "F0", (1, 90, 95), unit="0")),
        *(_gather(1, (70, 70, 90)), _row(1, "forward", "F0", (71, 90, 95), unit="0")),
    ]

    again = _again(_run(rows), "cluster.intra_busbw=1.6e8")

    assert _ends(again, 0) == [("AG0", 170), ("F0", 175)]


def test_what_nobody_knows_of_a_collective_stays_unknown() -> None:
    rows = [
        _gather(rank, (0, 0, 10)) | {"elements": None, "nbytes": None, "dtype": None}
        for rank in (0, 1)
    ]
    trace = _run(rows)

    again = _again(trace, "cluster.intra_busbw=1.6e8")

    assert replay_of(trace).kept == 1
    assert _ends(again) == [("AG0", 10)]
    assert again.spans["nbytes"].to_list() == [None, None]


def test_ranks_that_issue_different_collectives_are_refused_by_name() -> None:
    rows = [_gather(0, (0, 0, 10)), _gather(1, (0, 0, 10)) | {"kind": "broadcast", "name": "BC0"}]

    with pytest.raises(TraceFileError, match="rank 0 issued 'AG0' as collective 0, rank 1 'BC0'"):
        replay_of(_run(rows))


def test_a_rank_without_rows_does_what_another_did() -> None:
    program = replay_of(_run([_gather(0, (0, 0, 10))]))

    assert program.taken_from == (0, 0)


def test_streams_that_are_numbered_otherwise_on_another_rank_are_the_same() -> None:
    rows = [
        _row(0, "other", "k", (0, 0, 10)) | {"stream": "stream 7"},
        _row(1, "other", "k", (0, 0, 12)) | {"stream": "stream 21"},
    ]

    program = replay_of(_run(rows))

    assert [op.stream for op in program.plan.ops] == ["stream 7"]
    assert program.durations == ((10, 12),)


def test_ranks_whose_kernels_differ_are_joined_between_collectives() -> None:
    rows = [
        *(_row(0, "other", "a", (0, 0, 4)), _row(0, "copy", "b", (1, 4, 6)), _gather(0, (2, 6, 9))),
        *(_row(1, "other", "a", (0, 0, 5)), _gather(1, (2, 5, 9))),
    ]

    program = replay_of(_run(rows))

    named = [op.name for op in program.plan.ops if op.kind is not Kind.HOST]
    assert named == ["computing", "AG0"]


def test_a_speed_that_is_none_is_refused() -> None:
    trace = _run([_gather(0, (0, 0, 10)), _gather(1, (0, 0, 10))])
    cluster = cluster_of(load_scenario("lesson-zero3", ["world_size=2"]))

    with pytest.raises(InputError, match="speed is 0: give a number above 0"):
        retime(trace, replay_of(trace), cluster, speed=0)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_simulated_run_replayed_on_a_slow_network_is_the_run_simulated_there(engine: str) -> None:
    scenario = load_scenario("gpt2-1.5b", [f"schedule={engine}", "layers=12"])
    slow = scenario.with_set(["cluster.intra_busbw=5e9", "cluster.inter_busbw=2e9"])
    trace = run(scenario)

    replayed = retime(trace, replay_of(trace), cluster_of(slow))

    assert _length(replayed) / _length(run(slow)) == pytest.approx(1, abs=0.02)


def test_the_lesson_comes_out_to_the_nanosecond() -> None:
    scenario = load_scenario("lesson-zero3", ["run.steps=3", "run.jitter=0.1"])
    trace = run(scenario)

    assert _length(retime(trace, replay_of(trace), cluster_of(scenario))) == _length(trace)


def test_a_real_run_takes_what_it_took_within_two_percent() -> None:
    trace = load_run(Path(zerosim.__file__).parent / "examples" / "lesson-zero3-gloo")
    program: Replay = replay_of(trace)

    again = retime(trace, program, cluster_of(load_scenario("lesson-zero3")), priced=False)

    assert _length(again) / program.source_ns == pytest.approx(1, abs=0.02)


def _length(trace: Trace) -> int:
    end = trace.spans["end_ns"].max()
    assert isinstance(end, int)
    return end


def test_a_replay_can_be_replayed_and_is_still_of_a_cpu() -> None:
    trace = load_run(Path(zerosim.__file__).parent / "examples" / "lesson-zero3-gloo")
    cluster = cluster_of(load_scenario("lesson-zero3"))

    once = retime(trace, replay_of(trace), cluster, priced=False)
    twice = retime(once, replay_of(once), cluster, priced=False)

    assert replay_of(once).blocking
    assert _length(twice) == pytest.approx(_length(once), rel=0.01)
