"""Steps of an execution trace: marks above, numbers between, or times; else unknown, and said."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from zerosim.analysis.report import assess
from zerosim.errors import TraceFileError
from zerosim.importers import execution, read
from zerosim.importers.choice import ALL, Choice
from zerosim.importers.content import Content
from zerosim.importers.recording import Recording, Window

THREAD = "[pytorch|profiler|execution_trace|thread]"
OUTSIDE = "the step of ops that were called outside of all marked steps"


def node(number: int, name: str, parent: int, **more: Any) -> dict[str, Any]:
    empty: dict[str, Any] = {"values": [], "types": []}
    made = {"id": number, "name": name, "ctrl_deps": parent, "inputs": empty, "outputs": empty}
    return {**made, "attrs": [], **more}


def document(*nodes: Any) -> bytes:
    return json.dumps({"schema": "1.1.1-chakra.0.0.4", "start_ts": 5, "nodes": nodes}).encode()


def recording(*nodes: Any) -> Recording:
    return execution.parse(Content(Path("et_0.json"), document(*nodes)), ALL)[0]


def steps(found: Recording) -> dict[str, int | None]:
    return dict(found.spans.select("name", "step").iter_rows())


def two_threads(second: int) -> list[dict[str, Any]]:
    """Step 4, step `second`; the backward pass of each on thread 20, whose nodes lie below no mark."""
    return [
        *(node(2, THREAD, 1), node(3, "aten::before", 2)),
        *(node(10, "ProfilerStep#4", 2), node(11, "aten::forward", 10)),
        *(node(20, THREAD, 1), node(21, "autograd", 20), node(22, "aten::backward", 21)),
        *(node(30, "aten::update", 10), node(31, "aten::late", 20)),
        *(node(40, f"ProfilerStep#{second}", 2), node(41, "aten::again", 40)),
        *(node(42, "aten::after", 20),),
    ]


def test_what_another_thread_called_meanwhile_is_of_the_step() -> None:
    found = recording(*two_threads(5))
    assert steps(found) == {
        "aten::before": None,
        "aten::forward": 4,
        "aten::backward": 4,
        "aten::update": 4,
        "aten::late": 4,
        "aten::again": 5,
        "aten::after": None,
    }
    assert OUTSIDE in found.quality.unknown


def test_between_steps_that_do_not_follow_each_other_the_step_is_unknown() -> None:
    assert steps(recording(*two_threads(9)))["aten::late"] is None
    assert steps(recording(*two_threads(9)))["aten::backward"] == 4


def test_numbers_that_are_in_no_order_of_calls_say_nothing() -> None:
    found = recording(*two_threads(5), node(50, "aten::odd", 60), node(60, "aten::caller", 2))
    assert steps(found)["aten::backward"] is None
    assert steps(found)["aten::forward"] == 4


def test_times_say_it_where_a_linker_added_them_and_become_windows() -> None:
    found = recording(
        *(node(90, "ProfilerStep#1", 2, ts=100, inclusive_dur=50),),
        *(node(80, "ProfilerStep#2", 2, ts=150, inclusive_dur=50),),
        *(node(7, "aten::one", 6, ts=110, inclusive_dur=5),),
        *(node(8, "aten::two", 6, ts=160, inclusive_dur=5),),
        *(node(9, "aten::none", 6, ts=200, inclusive_dur=5),),
        node(95, "gemm", 7, cat="kernel", stream=7, ts=170, inclusive_dur=2),
    )
    assert steps(found) == {"aten::one": 1, "aten::two": 2, "aten::none": None, "gemm": 1}
    assert found.windows == (Window(1, 100_000, 150_000), Window(2, 150_000, 200_000))


def test_a_trace_without_marks_says_so() -> None:
    found = recording(node(2, THREAD, 1), node(3, "aten::mm", 2))
    assert "steps: the trace marks none" in found.quality.unknown


def test_steps_without_times_are_reported_and_can_be_chosen(tmp_path: Path) -> None:
    path = tmp_path / "et_0.json"
    path.write_bytes(document(*two_threads(5)))
    assert assess(read([path]))["steps"] == [[4, 5]]
    chosen = read([path], choice=Choice(steps=(5, 9)))
    assert chosen.spans["name"].to_list() == ["aten::again"]
    with pytest.raises(TraceFileError, match="no steps 7 to 8: the files have 4 to 5"):
        read([path], choice=Choice(steps=(7, 8)))


def test_a_real_backward_pass_on_a_thread_of_its_own_is_of_its_step(shared: Path) -> None:
    name = "et_replay__tests__inputs__1.1.0-chakra.0.0.4__resnet_2gpu_et.json.gz"
    spans = read([shared / "facebookresearch+param" / name]).spans
    assert Counter(spans["step"]) == {4: 1235, 5: 1235, 6: 1235}
    reduced = spans.filter(spans["kind"] == "all_reduce")
    assert Counter(reduced["step"]) == {4: 5, 5: 5, 6: 5}
