"""DeepSpeed's coordinator by hand: a root and four modules of ten elements, forward and backward."""

from __future__ import annotations

import pytest

from zerosim.errors import ScenarioError
from zerosim.schedules.deepspeed3.coordinator import Coordinator
from zerosim.schedules.deepspeed3.modules import Node

MODULES = tuple(Node(str(i), (i,), (i,)) for i in range(4))
ROOT = Node("", (), (0, 1, 2, 3), MODULES)
TEN = 10


def recorded(prefetch: int, reuse: int, live: int = 1000, kept: int | None = None) -> Coordinator:
    """A coordinator that has seen one micro-batch, about to begin the next."""
    persistent = frozenset(() if kept is None else (kept,))
    made = Coordinator((TEN,) * len(MODULES), persistent, prefetch, live, reuse)
    made.restart()
    walk(made)
    made.partition_all()
    made.keep_persistent()
    made.restart()
    return made


def walk(made: Coordinator) -> list[str]:
    """`0+1`: gathers module 0, and 1 ahead; `-0`: drops it. The forward, `|`, the backward."""
    said: list[str] = []
    for forward in (True, False):
        for node in (ROOT, *(MODULES if forward else MODULES[::-1])):
            needed, ahead = made.fetch(node, forward=forward)
            said.append("".join(map(str, needed)) + "".join(f"+{p}" for p in ahead))
            said += [f"-{p}" for p in made.release(node, forward=forward)]
        said.append("|" if forward else "")
    return [word for word in said if word]


def test_a_recording_gathers_each_module_when_it_comes_and_drops_it_at_once() -> None:
    made = Coordinator((TEN,) * len(MODULES), frozenset({3}), 1000, 1000, 1000)
    made.restart()
    each = [word for i in range(4) for word in (str(i), f"-{i}")]
    back = [word for i in (3, 2, 1, 0) for word in (str(i), f"-{i}")]
    assert walk(made) == [*each, "|", *back]


def test_without_a_reuse_distance_nothing_is_kept() -> None:
    assert walk(recorded(0, 0))[-8:] == ["3", "-3", "2", "-2", "1", "-1", "0", "-0"]


@pytest.mark.parametrize("reuse", [1, TEN])
def test_any_reuse_distance_up_to_a_module_keeps_the_last_one(reuse: int) -> None:
    said = walk(recorded(0, reuse))
    assert said[:8] == ["0", "-0", "1", "-1", "2", "-2", "3", "|"]
    assert said[8:] == ["-3", "2", "-2", "1", "-1", "0", "-0"]


def test_the_module_that_crosses_the_reuse_distance_still_counts() -> None:
    # After module 2 come 3, the root, 3 and 2: 20 elements are passed before 2 is looked at.
    assert "-2" in walk(recorded(0, 2 * TEN))[:8]
    assert "-2" not in walk(recorded(0, 2 * TEN + 1))[:8]


def test_the_last_parameter_may_overshoot_the_prefetch_bucket() -> None:
    assert recorded(TEN + 1, 0).fetch(ROOT, forward=True) == ((), (0, 1))


def test_what_is_gathered_counts_against_the_live_parameters_only_when_prefetching() -> None:
    made = recorded(2 * TEN, 0, live=TEN)
    assert made.fetch(ROOT, forward=True) == ((), (0,))
    assert made.fetch(MODULES[0], forward=True) == ((), ())
    assert made.fetch(MODULES[1], forward=True) == ((1,), ())  # needed now, so over the limit


def test_what_a_prefetch_passed_over_is_kept_for_that_use() -> None:
    # In module 3 the prefetch passes over 3, marks it, and finds 2.
    said = walk(recorded(TEN, 0))
    assert said[: said.index("|")] == ["+0", "+1", "-0", "+2", "-1", "+3", "-2", "+2"]
    assert said[said.index("|") + 1 :] == ["+1", "+0", "-3", "-2", "-1", "-0"]


def test_a_persistent_parameter_is_gathered_only_by_the_step() -> None:
    said = walk(recorded(0, 0, kept=1))
    assert "1" not in said
    assert "-1" not in said


def test_a_parameter_that_another_module_runs_with_is_kept() -> None:
    made = recorded(0, 0)
    twin = Node("twin", (0,), (0,))
    made.complete = False
    made.fetch(MODULES[0], forward=True)
    made.fetch(twin, forward=True)
    assert made.release(MODULES[0], forward=True) == ()
    assert made.release(twin, forward=True) == (0,)


def test_modules_whose_backward_never_ends_are_dropped_after_it_but_for_persistent_ones() -> None:
    made = recorded(0, 0, kept=1)
    made.complete = False
    made.fetch(MODULES[1], forward=False)
    made.fetch(MODULES[0], forward=False)
    assert made.leftovers() == (0,)
    assert made.gathered == {1}


def test_a_prefetch_that_loses_the_trace_is_refused_as_the_engine_would() -> None:
    made = recorded(0, 0)
    with pytest.raises(ScenarioError, match="tracing error at module '2'"):
        made.fetch(MODULES[2], forward=True)
