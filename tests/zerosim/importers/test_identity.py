"""Files are told apart by what they say, then by name, then by place; doubts are said."""

from __future__ import annotations

import polars as pl

from zerosim.importers.identity import assign_ranks, name_groups, world_size
from zerosim.importers.recording import ROWS, Recording
from zerosim.quality import Quality
from zerosim.trace import Group


def recording(
    source: str, rank: int | None = None, world: int | None = None, *groups: Group
) -> Recording:
    return Recording(
        source=source,
        rank=rank,
        world_size=world,
        spans=pl.DataFrame(schema=ROWS),
        groups=groups,
        quality=Quality(),
    )


def test_what_a_file_says_of_itself_counts() -> None:
    assert assign_ranks([recording("rank9.json", 3), recording("b.json", 1)]) == ([3, 1], ())


def test_a_silent_file_is_known_by_its_name() -> None:
    ranks, warnings = assign_ranks([recording("trace_rank-7.json"), recording("worker2.pt.json")])
    assert ranks == [7, 2]
    assert warnings == (
        "'trace_rank-7.json' does not say its rank: 7 by its name",
        "'worker2.pt.json' does not say its rank: 2 by its name",
    )


def test_a_nameless_file_gets_the_first_free_place() -> None:
    ranks, warnings = assign_ranks([recording("a.json", 0), recording("b.json")])
    assert ranks == [0, 1]
    assert warnings == ("'b.json' does not say its rank: 1 by its place in line",)


def test_two_silent_files_do_not_both_become_rank_0() -> None:
    ranks, warnings = assign_ranks([recording("a.json"), recording("b.json")])
    assert ranks == [0, 1]
    assert len(warnings) == 2


def test_files_that_all_say_rank_0_are_told_apart_by_name() -> None:
    ranks, warnings = assign_ranks([recording(f"rank{i}.json", 0) for i in (2, 0, 1)])
    assert ranks == [2, 0, 1]
    assert warnings == ("several files say they are rank 0: ranks taken from the file names",)


def test_files_that_all_say_rank_0_without_names_stand_in_line() -> None:
    ranks, warnings = assign_ranks([recording("a.json", 0), recording("b.json", 0)])
    assert ranks == [0, 1]
    assert warnings == ("'b.json' says rank 0, like another file: 1 by its place in line",)


def test_a_name_does_not_take_the_place_that_another_file_claims() -> None:
    ranks, _ = assign_ranks([recording("rank1.json"), recording("x.json", 1)])
    assert ranks == [0, 1]


def test_the_declared_world_size_counts() -> None:
    assert world_size([recording("a", 0, 8)], [0]) == (8, ())


def test_a_world_smaller_than_its_groups_is_corrected_aloud() -> None:
    size, warnings = world_size([recording("a", 0, 2, Group("0", 4, (0, 1, 2, 3)))], [0])
    assert size == 4
    assert warnings == ("the files say 2 ranks, but 4 take part: 4 it is",)


def test_a_lone_file_that_says_nothing_leaves_the_world_unknown() -> None:
    assert world_size([recording("a", 0)], [0]) == (None, ())


def test_several_silent_files_are_at_least_so_many_ranks() -> None:
    assert world_size([recording("a", 0), recording("b", 5)], [0, 5]) == (6, ())


def test_equal_groups_of_several_files_are_one() -> None:
    world = Group("0", 2, (0, 1))
    names, groups = name_groups([recording("a", 0, 2, world), recording("b", 1, 2, world)])
    assert names == [{"0": "0"}, {"0": "0"}]
    assert groups == (world,)


def test_groups_of_one_name_but_other_ranks_are_told_apart() -> None:
    names, groups = name_groups(
        [
            recording("a", 0, 4, Group("tp", 2, (0, 1))),
            recording("b", 2, 4, Group("tp", 2, (2, 3))),
        ]
    )
    assert names == [{"tp": "tp of 0,1"}, {"tp": "tp of 2,3"}]
    assert groups == (Group("tp of 0,1", 2, (0, 1)), Group("tp of 2,3", 2, (2, 3)))


def test_a_file_that_knows_the_ranks_fills_in_for_one_that_does_not() -> None:
    _, groups = name_groups(
        [recording("a", 0, 2, Group("0", 2)), recording("b", 1, 2, Group("0", 2, (0, 1)))]
    )
    assert groups == (Group("0", 2, (0, 1)),)
