"""A ring outlives its rank: what was issued last, who it is, whether it moves, its last word."""

from __future__ import annotations

import os
from pathlib import Path

from zerosim_runtime.ring import Life, open_ring, read_life, read_ring


def test_a_ring_keeps_what_was_issued_and_what_has_ended(tmp_path: Path) -> None:
    ring = open_ring(tmp_path, 1)
    first = ring.issue("world", 0, "all_gather", "blocks.0", 10)
    ring.issue("world", 1, "all_gather", "blocks.1", 20)
    ring.end(first, 15)

    noted = read_ring(tmp_path, 1)

    assert [(n.seq, n.unit, n.issued_ns, n.ended_ns) for n in noted] == [
        (0, "blocks.0", 10, 15),
        (1, "blocks.1", 20, 0),
    ]


def test_a_ring_forgets_the_oldest(tmp_path: Path) -> None:
    ring = open_ring(tmp_path, 0)
    for seq in range(600):
        ring.end(ring.issue("world", seq, "all_reduce", None, seq), seq + 1)

    noted = read_ring(tmp_path, 0)

    assert (noted[0].seq, noted[-1].seq, len(noted)) == (88, 599, 512)


def test_a_late_end_does_not_touch_the_slot_of_another(tmp_path: Path) -> None:
    ring = open_ring(tmp_path, 0)
    oldest = ring.issue("world", 0, "all_reduce", None, 1)
    for seq in range(1, 513):
        ring.issue("world", seq, "all_reduce", None, 1)
    ring.end(oldest, 99)

    assert all(each.ended_ns == 0 for each in read_ring(tmp_path, 0))


def test_a_rank_without_a_ring_has_noted_nothing(tmp_path: Path) -> None:
    assert read_ring(tmp_path, 3) == ()


def test_a_ring_tells_who_the_rank_is_when_it_moved_and_its_last_word(tmp_path: Path) -> None:
    ring = open_ring(tmp_path, 2)
    assert read_life(tmp_path, 2) == Life(os.getpid(), 0, "", "")
    ring.beat(70)
    ring.say("failed", "ValueError: no luck")
    assert read_life(tmp_path, 2) == Life(os.getpid(), 70, "failed", "ValueError: no luck")


def test_a_rank_without_a_ring_has_no_life(tmp_path: Path) -> None:
    assert read_life(tmp_path, 3) is None
