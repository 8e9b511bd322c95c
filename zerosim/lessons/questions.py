"""The three check questions of the lesson, answered by the plans and the simulated runs."""

from __future__ import annotations

from dataclasses import dataclass

from zerosim.kinds import Kind
from zerosim.lessons.states import State
from zerosim.plan import Op, Plan
from zerosim.trace import StateBytes
from zerosim.units import format_bytes


@dataclass(frozen=True, slots=True)
class Question:
    """A question, its answer in a sentence or two, and the numbers or ops that show it."""

    ask: str
    answer: str
    evidence: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Subject:
    """One lesson as the questions see it."""

    plan: Plan
    states: tuple[State, ...]
    owned: StateBytes


def questions(zero2: Subject, zero3: Subject) -> tuple[Question, ...]:
    """The seed's three questions, from the runs of the two lessons."""
    return _beyond(zero2, zero3), _gathers(zero2, zero3), _why(zero3)


def _beyond(zero2: Subject, zero3: Subject) -> Question:
    names = ("parameters", "gradients", "optimizer")
    pairs = [(n, getattr(zero2.owned, n), getattr(zero3.owned, n)) for n in names]
    changed = [name for name, a, b in pairs if a != b]
    return Question(
        "What does ZeRO-3 shard beyond ZeRO-2?",
        f"The {' and '.join(changed)}. Gradients and optimizer states are sharded by both.",
        tuple(
            f"{name}: {format_bytes(a)} a rank with ZeRO-2, {format_bytes(b)} with ZeRO-3"
            for name, a, b in pairs
        ),
    )


def _gathers(zero2: Subject, zero3: Subject) -> Question:
    late = sum(s.kind is Kind.ALL_GATHER for s in _after_update(zero2))
    after = sum(s.kind is Kind.ALL_GATHER for s in _after_update(zero3))
    return Question(
        "How do the all-gathers of ZeRO-1/2 and of ZeRO-3 differ?",
        "In ZeRO-1 and ZeRO-2 they come after the update and restore the full parameters, which stay. "
        "In ZeRO-3 each comes just before a layer computes, and that layer is freed afterwards; "
        f"after the update there are {after or 'none'}.",
        (
            f"ZeRO-2: {_order(zero2)}: {_count(zero2)} all-gathers, {late} of them after OPT",
            f"ZeRO-3: {_order(zero3)}: {_count(zero3)} all-gathers, {after} of them after OPT",
            (
                f"most gathered at once with ZeRO-3: {format_bytes(_most(zero3, 'gathered'))}, "
                f"against {format_bytes(zero2.owned.parameters)} of full parameters with ZeRO-2"
            ),
        ),
    )


def _why(zero3: Subject) -> Question:
    return Question(
        "Why does computing dX need W?",
        "Y = X·W gives dW = Xᵀ·dY, which needs no weights, but dX = dY·Wᵀ, which does. So every "
        "backward waits for its gathered layer; recomputing activations has nothing to do with it.",
        tuple(
            f"{op.name} waits for {gather.name}"
            + ("" if _step_of(zero3.plan, gather) == "backward" else ", kept since the forward")
            for op, gather in _waits(zero3.plan)
        ),
    )


def _after_update(subject: Subject) -> list[State]:
    kinds = [s.kind for s in subject.states]
    return list(subject.states[kinds.index(Kind.OPTIMIZER) :])


def _count(subject: Subject) -> int:
    return sum(s.kind is Kind.ALL_GATHER for s in subject.states)


def _order(subject: Subject) -> str:
    return " ".join(s.name for s in subject.states if s.kind is not None)


def _most(subject: Subject, kind: str) -> int:
    return max(dict(s.nbytes)[kind] for s in subject.states)


def _waits(plan: Plan) -> list[tuple[Op, Op]]:
    """Each backward op of the last step with the gather of its layer that it waits for."""
    step = max(op.step for op in plan.ops)
    return [
        (op, plan.ops[before])
        for op in plan.ops
        if op.kind is Kind.BACKWARD and op.step == step
        for before in op.after
        if plan.ops[before].kind is Kind.ALL_GATHER
    ]


def _step_of(plan: Plan, gather: Op) -> str:
    later = (op.kind for op in plan.ops[gather.id :] if op.kind in (Kind.FORWARD, Kind.BACKWARD))
    return "backward" if next(later, None) is Kind.BACKWARD else "forward"
