"""Two ranks are apart where both have issued something and not the same, or one has ended without it."""

from __future__ import annotations

from zerosim_runtime.agreement import Entry, Queue, Said, apart, hear, say

A: Entry = ("all_gather", "AGa", 8)
B: Entry = ("all_gather", "AGb", 8)
BIG_B: Entry = ("all_gather", "AGb", 12)


def _said(rank: int, *entries: Entry, settled: int = 0, ended: bool = False) -> Said:
    return Said(rank, settled, ended, {"gather": (3, list(entries))})


def test_who_has_not_come_as_far_is_not_apart() -> None:
    assert apart([_said(0, A, B), _said(1, A), _said(2)]) is None


def test_the_first_that_differs_is_told_with_its_number() -> None:
    assert apart([_said(0, A, B), _said(1, A, A)]) == (
        "rank 0 issued 'AGb' and rank 1 'AGa' as seq 4 of queue 'gather'"
    )


def test_sizes_are_told_where_they_differ() -> None:
    assert apart([_said(0, BIG_B), _said(1, B)]) == (
        "rank 0 issued 'AGb' of 12 elements and rank 1 'AGb' of 8 elements "
        "as seq 3 of queue 'gather'"
    )


def test_every_two_ranks_are_compared() -> None:
    found = apart([_said(0), _said(1, A), _said(2, B)])
    assert found == "rank 1 issued 'AGa' and rank 2 'AGb' as seq 3 of queue 'gather'"


def test_who_has_ended_the_step_without_it_is_apart() -> None:
    found = apart([_said(0, A, B), _said(1, A, ended=True)])
    assert found == "rank 0 issued 'AGb' and rank 1 nothing as seq 4 of queue 'gather'"


def test_ranks_in_different_steps_cannot_be_compared() -> None:
    assert apart([_said(0, A), _said(1, B, settled=1)]) is None


def test_what_is_said_is_heard() -> None:
    queue = Queue()
    queue.add(A)
    queue.begin()
    queue.add(B)
    said = hear(say(1, 1, {"gather": queue}, ended=True))
    assert said == Said(1, 1, ended=True, queues={"gather": (1, [B])})
    assert said.reached("gather") == 2
    assert said.last("gather") == "'AGb' (seq 1 of queue 'gather')"
    assert said.last("reduce") == "nothing in this step"


def test_a_digest_is_of_all_that_was_ever_issued_in_its_order() -> None:
    one, other = Queue(), Queue()
    for first, second in ((A, B), (B, A)):
        one.add(first)
        other.add(second)
    assert one.digest != other.digest


def test_a_collective_is_new_where_it_never_followed_the_one_before() -> None:
    queue = Queue()
    assert [queue.add(entry) for entry in (A, B, A, B, B)] == [True, True, True, False, True]
