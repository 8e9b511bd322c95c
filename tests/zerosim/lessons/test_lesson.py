"""The lessons: their sequence, their bytes and their answers come from the engine."""

from __future__ import annotations

import polars as pl
import pytest

from zerosim.errors import InputError, UnknownNameError
from zerosim.kinds import Kind
from zerosim.lessons import LESSONS, Lesson, lesson
from zerosim.lessons.states import states
from zerosim.scenario import load_scenario, numerics_of, plan_of, run, workload_of

NAMES = tuple(LESSONS)
LAYER = (768 * 768 + 768) * 4
THIRD = LAYER // 3


@pytest.fixture(name="three", scope="module")
def _three() -> Lesson:
    return lesson("zero3")


@pytest.mark.parametrize(
    ("name", "order"),
    [
        ("zero3", "AG0 F0 AG1 F1 AG2 F2 B2 RS2 AG1 B1 RS1 AG0 B0 RS0 OPT"),
        ("zero2", "F0 F1 F2 B2 RS2 B1 RS1 B0 RS0 OPT AG0 AG1 AG2"),
        ("zero1", "F0 F1 F2 B2 RS2 B1 RS1 B0 RS0 OPT AG0 AG1 AG2"),
        ("ddp", "F0 F1 F2 B2 AR2 B1 AR1 B0 AR0 OPT"),
    ],
)
def test_a_lesson_teaches_its_sequence(name: str, order: str) -> None:
    assert lesson(name).order == order


def test_a_lesson_has_a_state_before_each_op_and_after(three: Lesson) -> None:
    assert [s.index for s in three.states] == list(range(17))
    assert [s.name for s in three.states[:2]] == ["before", "AG0"]
    assert three.states[-1].name == "after"


def test_phases_are_forward_backward_update(three: Lesson) -> None:
    assert [s.phase for s in three.states[1:7]] == ["forward"] * 6
    assert [s.phase for s in three.states[7:15]] == ["backward"] * 8
    assert [s.phase for s in three.states[15:]] == ["update", "after"]


def test_gathers_after_the_update_belong_to_it() -> None:
    late = [s.phase for s in lesson("zero2").states if s.kind is Kind.ALL_GATHER]
    assert late == ["update", "update", "update"]


def test_a_layer_is_freed_after_its_forward_but_for_the_last(three: Lesson) -> None:
    asides = [(s.name, s.aside) for s in three.states if s.aside]
    assert asides == [
        ("F0", "free"),
        ("F1", "free"),
        ("F2", "keep"),
        ("B2", "free"),
        ("B1", "free"),
        ("B0", "free"),
    ]


def test_bytes_of_a_rank_before_the_step_are_a_third_of_parameters_and_moments(
    three: Lesson,
) -> None:
    assert dict(three.states[0].nbytes) == {
        "parameters": 3 * THIRD,
        "gathered": 0,
        "gradients": 0,
        "buckets": 0,
        "optimizer": 2 * 3 * THIRD,
        "activations": 0,
        "logits": 0,
        "workspace": 0,
    }


@pytest.mark.parametrize(
    ("name", "more"), [("zero3", 0), ("zero2", LAYER - THIRD), ("zero1", 0), ("ddp", 0)]
)
def test_the_highest_state_is_the_peak_that_the_engine_recorded(name: str, more: int) -> None:
    # ZeRO-2 peaks while the last gradient is copied, which is no step of the lesson: the gradient
    # is still there, but the shard of its sum is not.
    trace = run(load_scenario(LESSONS[name].scenario))
    allocated = trace.samples.filter(pl.col("counter") == "memory.allocated")["value"]
    assert allocated.max() == max(s.total_bytes for s in lesson(name).states) + more


@pytest.mark.parametrize("name", NAMES)
def test_a_lesson_sends_what_the_closed_form_says(name: str) -> None:
    sent = lesson(name).volume
    assert sent.sent_bytes == sent.closed_bytes


def test_zero3_sends_three_psi_less_the_last_layer(three: Lesson) -> None:
    assert three.volume.formula == "(3Ψ - P_last)(N - 1)/N"
    assert three.volume.n_elements == 3 * 590_592
    assert three.volume.last_elements == 590_592
    assert three.volume.closed_bytes == 8 * 590_592 * 2 // 3 * 4


def test_the_others_send_two_psi() -> None:
    volumes = [lesson(name).volume for name in ("zero2", "zero1", "ddp")]
    assert {v.formula for v in volumes} == {"2Ψ(N - 1)/N"}
    assert {v.closed_bytes for v in volumes} == {6 * 590_592 * 2 // 3 * 4}


def test_an_op_says_what_runs_at_the_same_time(three: Lesson) -> None:
    by_index = {s.index: s for s in three.states}
    assert by_index[2].name == "F0"
    assert by_index[2].meanwhile == ("AG1",)
    assert by_index[8].meanwhile == ()  # RS2 runs alone: AG1 queues behind it


def test_the_cells_an_op_works_on_are_marked(three: Lesson) -> None:
    hot = {s.name: set(s.hot) for s in three.states if s.phase == "forward"}
    assert hot["AG1"] == {("parameters", "1")}
    assert hot["F1"] == {("parameters", "1"), ("activations", "1")}
    (update,) = (set(s.hot) for s in three.states if s.kind is Kind.OPTIMIZER)
    assert update == {(c, u) for c in ("parameters", "gradients", "optimizer") for u in "012"}


def test_states_start_and_end_with_the_step(three: Lesson) -> None:
    assert three.states[0].start_ns == 0
    assert three.states[1].start_ns == 0
    assert three.states[-1].start_ns == max(s.end_ns for s in three.states)


def test_a_trace_of_another_plan_is_refused() -> None:
    scenario = load_scenario("lesson-zero3")
    other = run(load_scenario("lesson-zero2"))
    with pytest.raises(InputError, match="is not a run of plan 'zero3'"):
        states(plan_of(scenario), workload_of(scenario), numerics_of(scenario), other)


def test_an_unknown_lesson_is_answered_with_a_suggestion() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'zero3'"):
        lesson("zero-3")


def test_the_first_question_is_answered_by_bytes(three: Lesson) -> None:
    beyond = three.questions[0]
    assert beyond.answer.startswith("The parameters.")
    assert beyond.evidence == (
        "parameters: 7.09 MB a rank with ZeRO-2, 2.36 MB with ZeRO-3",
        "gradients: 2.36 MB a rank with ZeRO-2, 2.36 MB with ZeRO-3",
        "optimizer: 4.72 MB a rank with ZeRO-2, 4.72 MB with ZeRO-3",
    )


def test_the_second_question_is_answered_by_the_two_sequences(three: Lesson) -> None:
    late, early, most = three.questions[1].evidence
    assert late.endswith("OPT AG0 AG1 AG2: 3 all-gathers, 3 of them after OPT")
    assert early.endswith("B0 RS0 OPT: 5 all-gathers, 0 of them after OPT")
    assert "2.36 MB" in most
    assert "7.09 MB" in most


def test_the_third_question_is_answered_by_what_waits_for_what(three: Lesson) -> None:
    assert three.questions[2].evidence == (
        "B2 waits for AG2, kept since the forward",
        "B1 waits for AG1",
        "B0 waits for AG0",
    )
