"""The innermost slice of a thread at a moment."""

from __future__ import annotations

from zerosim.importers.kineto.events import Slice
from zerosim.importers.kineto.nesting import Nesting, nest


def piece(name: str, start: int, end: int, thread: int = 1) -> Slice:
    return Slice(start, end, name, "user_annotation", (1, thread), {}, 0)


def at(nesting: Nesting, moment: int, thread: int = 1) -> str | None:
    found = nesting.innermost((1, thread), moment)
    return found.name if found else None


def test_the_innermost_of_a_stack_is_found() -> None:
    nesting = nest([piece("outer", 0, 100), piece("inner", 20, 40), piece("leaf", 25, 30)])
    assert [at(nesting, t) for t in (0, 19, 20, 25, 29, 30, 40, 99)] == [
        *("outer", "outer", "inner", "leaf", "leaf", "inner", "outer", "outer"),
    ]


def test_outside_of_all_there_is_none() -> None:
    nesting = nest([piece("a", 10, 20)])
    assert [at(nesting, t) for t in (9, 20, 21)] == [None, None, None]


def test_threads_do_not_mix() -> None:
    nesting = nest([piece("a", 0, 10, thread=1), piece("b", 0, 10, thread=2)])
    assert (at(nesting, 5, 1), at(nesting, 5, 2), at(nesting, 5, 3)) == ("a", "b", None)


def test_slices_that_start_together_nest_by_length() -> None:
    nesting = nest([piece("short", 0, 5), piece("long", 0, 10)])
    assert [at(nesting, t) for t in (0, 4, 5, 9)] == ["short", "short", "long", "long"]


def test_neighbours_leave_no_gap_and_no_overlap() -> None:
    nesting = nest([piece("a", 0, 10), piece("b", 10, 20)])
    assert [at(nesting, t) for t in (9, 10)] == ["a", "b"]


def test_nothing_nests_nothing() -> None:
    assert at(nest([]), 5) is None
