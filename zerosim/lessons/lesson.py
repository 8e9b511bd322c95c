"""A lesson: the states of one step of a preset scenario, what it sends, and the check questions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from zerosim.lessons.questions import Question, Subject, questions
from zerosim.lessons.states import State, states
from zerosim.lessons.volume import Volume, volume
from zerosim.registry import Registry
from zerosim.scenario import load_scenario, numerics_of, plan_of, run, workload_of
from zerosim.trace import Trace


@dataclass(frozen=True, slots=True)
class Outline:
    """What is written by hand of a lesson: its name, the scenario it runs, and its idea in a line."""

    title: str
    scenario: str
    idea: str


@dataclass(frozen=True, slots=True)
class Lesson:
    """All that the page needs. `units` are the layers, in forward order; `order` the ops of the step."""

    name: str
    outline: Outline
    n_ranks: int
    units: tuple[str, ...]
    states: tuple[State, ...]
    order: str
    volume: Volume
    questions: tuple[Question, ...]


LESSONS: Final = Registry(
    "lesson",
    {
        "zero3": Outline(
            "ZeRO-3",
            "lesson-zero3",
            "Every rank owns one part of everything. A layer is gathered just before it computes and "
            "freed right after.",
        ),
        "zero2": Outline(
            "ZeRO-2",
            "lesson-zero2",
            "Parameters stay whole on every rank; gradients and optimizer states are sharded. The "
            "all-gather comes after the update.",
        ),
        "zero1": Outline(
            "ZeRO-1",
            "lesson-zero1",
            "Only the optimizer states are sharded. Gradients stay whole until the update.",
        ),
        "ddp": Outline(
            "DDP",
            "lesson-ddp",
            "Every rank holds everything; gradients are all-reduced in buckets while the backward runs.",
        ),
    },
)
"""The lessons, by the name in the address."""


@lru_cache(maxsize=len(LESSONS.entries))
def lesson(name: str) -> Lesson:
    """Simulate a lesson's scenario and tell it step by step. Raises UnknownNameError."""
    outline = LESSONS[name]
    subject, trace = _subject(outline.scenario)
    return Lesson(
        name=name,
        outline=outline,
        n_ranks=subject.plan.world_size,
        units=tuple(dict.fromkeys(unit for _, unit in subject.states[0].cells)),
        states=subject.states,
        order=" ".join(state.name for state in subject.states if state.kind is not None),
        volume=volume(subject.plan, trace),
        questions=questions(_subject("lesson-zero2")[0], _subject("lesson-zero3")[0]),
    )


@lru_cache(maxsize=len(LESSONS.entries))
def _subject(preset: str) -> tuple[Subject, Trace]:
    scenario = load_scenario(preset)
    plan, trace = plan_of(scenario), run(scenario)
    told = states(plan, workload_of(scenario), numerics_of(scenario), trace)
    return Subject(plan, told, trace.meta.states[0]), trace
