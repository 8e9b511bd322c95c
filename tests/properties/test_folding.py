"""Folding and rings: equal ranks are one class, exactly, and a ring is its step loop, exactly."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.properties.programs import cases
from zerosim.engine import EQUAL, Variation
from zerosim.engine.folding import fold
from zerosim.engine.maxplus import ring_ends
from zerosim.engine.program import Program, Ring, Timed, instance
from zerosim.plan import Axis


@given(cases())
def test_ranks_of_a_class_see_the_same_classes_in_every_group(
    case: tuple[Program, Variation],
) -> None:
    program, variation = case
    folded = fold(program, variation)
    for axis in program.axes:
        group = instance(axis, program.n_ranks)
        seen: dict[int, list[int]] = {}
        for rank in range(program.n_ranks):
            content = sorted(folded.class_of[group == group[rank]].tolist())
            assert seen.setdefault(int(folded.class_of[rank]), content) == content


def test_one_straggler_of_eight_splits_its_node_its_peers_and_the_rest() -> None:
    axes = (Axis("inner", 2), Axis("outer", 4, 2))
    program = Program(8, (Timed(0, (), 0, 5),), axes, {})
    folded = fold(program, Variation(speed=((3, 1.3),)))
    # 0, 4, 6: other nodes, its neighbour's place. 1, 5, 7: its own place. 2: its neighbour. 3: itself.
    assert folded.class_of.tolist() == [0, 1, 2, 3, 0, 1, 0, 1]
    assert folded.representatives == (0, 1, 2, 3)


def test_equal_ranks_are_folded_as_refinement_would_fold_them() -> None:
    axes = (Axis("world", 12), Axis("inner", 3), Axis("outer", 4, 3))
    program = Program(12, (Timed(0, (), 0, 5),), axes, {})
    shortcut = fold(program, EQUAL)
    refined = fold(program, Variation(speed=((0, 1.0),)))
    assert shortcut.representatives == refined.representatives == (0,)
    assert shortcut.class_of.tolist() == refined.class_of.tolist()
    assert [g.tolist() for g in shortcut.group_of] == [g.tolist() for g in refined.group_of]


def test_equal_ranks_are_one_class_at_any_size() -> None:
    program = Program(16384, (Timed(0, (), 0, 5),), (Axis("world", 16384),), {})
    assert fold(program, EQUAL).n_classes == 1


@given(
    st.lists(st.integers(0, 1000), min_size=1, max_size=9),
    st.integers(0, 50),
    st.integers(0, 5),
)
def test_the_ring_operator_is_the_step_loop(start: list[int], d: int, ep: int) -> None:
    n = len(start)
    ends = ring_ends(np.asarray(start, dtype=np.int64), Ring(((n, 1, d),), ep))
    assert ends.tolist() == step_loop(start, list(range(n)), d, ep)


@given(st.sampled_from([(2, 2), (2, 3), (4, 2), (3, 3)]), st.data())
def test_the_two_level_ring_operator_is_two_step_loops(
    sizes: tuple[int, int], data: st.DataObject
) -> None:
    inner, outer = sizes
    n = inner * outer
    start = data.draw(st.lists(st.integers(0, 500), min_size=n, max_size=n))
    d0, d1, ep = (data.draw(st.integers(0, 40)) for _ in range(3))
    expected = list(start)
    for place in range(inner):  # an all-gather runs the outer dimension first
        expected = step_loop(expected, list(range(place, n, inner)), d1, ep)
    for node in range(outer):
        expected = step_loop(expected, list(range(node * inner, (node + 1) * inner)), d0, ep)
    ring = Ring(((outer, inner, d1), (inner, 1, d0)), ep)
    assert ring_ends(np.asarray(start, dtype=np.int64), ring).tolist() == expected


def step_loop(start: list[int], members: list[int], d: int, ep: int) -> list[int]:
    """The peer's loop, as its README writes it, on the ring of `members`."""
    x = list(start)
    for r in members:
        x[r] = start[r] + ep
    for _ in range(len(members) - 1):
        sent = list(x)
        for position, r in enumerate(members):
            x[r] = max(sent[r], sent[members[position - 1]] + d) + ep
    return x
