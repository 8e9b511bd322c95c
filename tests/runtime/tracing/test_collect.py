"""Logs of ranks become one trace: one clock, collectives tied, what is missing or disagrees said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from zerosim.errors import RuntimeFailedError
from zerosim.trace import Clock, Flag, Group, StepWindow
from zerosim_runtime.node import merge_nodes
from zerosim_runtime.records import Offset
from zerosim_runtime.tracing.collect import collect
from zerosim_runtime.tracing.spans import Span
from zerosim_runtime.tracing.tracer import Tracer, open_tracer

HEADER: dict[str, Any] = {
    "world_size": 2,
    "launch": "one",
    "backend": "gloo",
    "device": "CPU",
    "clock": "one",
    "unix_ns": 1_700_000_000_000_000_000,
    "host": "here",
    "torch": "2.13.0",
    "python": "3.11",
    "threads": 1,
    "steps": None,
}


def rank(directory: Path, number: int, **header: Any) -> Tracer:
    directory.mkdir(parents=True, exist_ok=True)
    tracer = open_tracer(directory, number, HEADER | {"rank": number} | header)
    tracer.group("world", [0, 1])
    return tracer


def reduce(at_ns: int, seq: int, **fields: Any) -> Span:
    span: dict[str, Any] = {
        "step": 1,
        "elements": 100,
        "nbytes": 400,
        "unit": "blocks.0",
        "group": "world",
    }
    return Span("all_reduce", "AR0", "world", at_ns, at_ns, at_ns + 10, seq=seq, **(span | fields))


def two(directory: Path, first: list[Span], second: list[Span]) -> None:
    for number, spans in enumerate((first, second)):
        tracer = rank(directory, number)
        for span in spans:
            tracer.add(span)
        tracer.close("finished")


def test_the_nth_collective_of_a_group_is_one(tmp_path: Path) -> None:
    two(tmp_path, [reduce(100, 0), reduce(200, 1)], [reduce(105, 0), reduce(205, 1)])
    trace = collect(tmp_path)
    assert trace.spans["collective"].to_list() == [0, 1, 0, 1]
    assert trace.spans["issued_ns"].to_list() == [0, 100, 5, 105]
    assert trace.spans["wire_bytes"].to_list() == [400] * 4
    assert trace.meta.groups == (Group("world", 2, (0, 1)),)
    assert trace.meta.steps == (StepWindow(0, 1, 0, 110), StepWindow(1, 1, 5, 115))
    assert (trace.meta.finished, trace.meta.quality.warnings) == (True, ())


def test_ops_stand_in_the_order_of_their_issue(tmp_path: Path) -> None:
    two(tmp_path, [reduce(200, 1), reduce(100, 0)], [])
    assert collect(tmp_path).spans["issued_ns"].to_list() == [0, 100]


def test_ranks_that_disagree_are_named_with_unit_and_number(tmp_path: Path) -> None:
    two(tmp_path, [reduce(0, 0)], [reduce(0, 0, elements=50, unit="blocks.1")])
    trace = collect(tmp_path)
    assert trace.spans["collective"].to_list() == [0, 1]
    assert [*trace.meta.quality.warnings] == [
        (
            "rank 0 and rank 1 disagree on collective 0 of group 'world': all_reduce of 'blocks.0' "
            "of 100 elements met all_reduce of 'blocks.1' of 50 elements"
        )
    ]


def test_an_end_before_anothers_issue_is_a_warning(tmp_path: Path) -> None:
    two(tmp_path, [reduce(0, 0)], [reduce(50, 0)])
    assert collect(tmp_path).meta.quality.warnings == (
        "1 collectives ended on a rank before another had issued them",
    )


def test_a_rank_that_is_missing_is_said(tmp_path: Path) -> None:
    tracer = rank(tmp_path, 0)
    tracer.add(reduce(0, 0))
    tracer.close("finished")
    quality = collect(tmp_path).meta.quality
    assert (quality.lost, quality.warnings) == (1, ("nothing is known of rank 1",))


def test_a_killed_rank_is_known_from_its_ring(tmp_path: Path) -> None:
    two(tmp_path, [reduce(100, 0), reduce(200, 1)], [])
    killed = rank(tmp_path, 1)
    for seq, ended_ns in ((0, 111), (1, 0)):
        number = killed.ring.issue("world", seq, "all_reduce", "blocks.0", 105 + 100 * seq, 100)
        if ended_ns:
            killed.ring.end(number, ended_ns)
    killed.file.close()
    trace = collect(tmp_path, failure="rank 1 was killed by SIGKILL")
    assert not trace.meta.finished
    assert trace.spans["collective"].to_list() == [0, 1, 0, 1]
    assert trace.spans["flags"].to_list() == [0, 0, 0, int(Flag.UNFINISHED)]
    assert trace.spans["name"].to_list()[2:] == ["ARblocks.0", "ARblocks.0"]
    assert trace.meta.quality.warnings[0] == "rank 1 was killed by SIGKILL"


def test_a_step_that_did_not_end_has_no_window(tmp_path: Path) -> None:
    tracer = rank(tmp_path, 0)
    tracer.add(reduce(0, 0))
    tracer.add(reduce(20, 1, step=2))
    tracer.ring.issue("world", 2, "all_reduce", None, 40)
    tracer.add(Span("all_reduce", "AR0", "world", 30, seq=3, group="world", step=2))
    tracer.file.flush()
    tracer.flush()
    trace = collect(tmp_path, failure="it was stopped")
    assert [window.step for window in trace.meta.steps] == [1]


def test_a_collective_without_times_is_untimed_and_counted(tmp_path: Path) -> None:
    span = Span("broadcast", "BC", "world", 5, group="world", seq=0)
    two(tmp_path, [span], [span])
    trace = collect(tmp_path)
    assert trace.spans["flags"].to_list() == [int(Flag.UNTIMED)] * 2
    assert trace.meta.quality.unsized == 2
    assert trace.meta.quality.warnings == ("2 ops have no times of their own",)


def test_offsets_bring_ranks_onto_one_clock_with_its_error(tmp_path: Path) -> None:
    here, there = rank(tmp_path, 0), rank(tmp_path, 1, clock="another")
    here.add(reduce(100, 0))
    there.add(reduce(1_105, 0))
    for at_ns in (50, 250):
        here.offset(Offset(1, at_ns, 1_000, 3))
    here.close("finished")
    there.close("finished")
    trace = collect(tmp_path)
    assert trace.meta.clock == Clock(aligned=True, error_ns=3, offsets_ns=((1, -1_000),))
    assert trace.spans["issued_ns"].to_list() == [0, 5]


def test_without_offsets_the_clocks_of_two_hosts_are_not_aligned(tmp_path: Path) -> None:
    for number, clock in enumerate(("one", "another")):
        tracer = rank(tmp_path, number, clock=clock)
        tracer.add(reduce(100, 0))
        tracer.close("finished")
    assert collect(tmp_path).meta.clock == Clock(aligned=False, error_ns=None)


def test_ranks_of_an_earlier_launch_are_left_out(tmp_path: Path) -> None:
    two(tmp_path, [reduce(0, 0)], [reduce(0, 0)])
    tracer = rank(tmp_path, 0, launch="two", unix_ns=HEADER["unix_ns"] + 1)
    tracer.add(reduce(0, 0))
    tracer.close("finished")
    assert collect(tmp_path).ranks == (0,)


def test_nothing_recorded_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(RuntimeFailedError, match="no rank recorded anything"):
        collect(tmp_path)


def test_directories_of_two_nodes_are_merged(tmp_path: Path) -> None:
    for number in (0, 1):
        tracer = rank(tmp_path / f"node-{number}", number)
        tracer.add(reduce(0, 0))
        tracer.close("finished")
    (tmp_path / "node-0" / "program.json").write_bytes(
        orjson.dumps({"name": "train", "argv": ["train.py"]})
    )
    trace = merge_nodes(tmp_path)
    assert (trace.meta.name, trace.ranks, trace.meta.finished) == ("train", (0, 1), True)
    assert trace.provenance["program"] == ["train.py"]


def test_a_merge_without_all_ranks_is_unfinished_and_says_so(tmp_path: Path) -> None:
    tracer = rank(tmp_path, 0)
    tracer.add(reduce(0, 0))
    tracer.close("finished")
    meta = merge_nodes(tmp_path).meta
    assert not meta.finished
    assert meta.quality.warnings[0] == "1 of 2 ranks left no record, rank 1 among them"
