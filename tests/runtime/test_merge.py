"""Records become one trace: on one clock, tied together, and refused if they contradict each other."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.runtime.written import HEADER, lesson, read_lines, write_lines, write_records
from zerosim.errors import RunError, RuntimeFailedError
from zerosim.trace import Flag
from zerosim_runtime.merge import merge

TIMES = ["rank", "issued_ns", "start_ns", "end_ns"]


def test_records_with_the_simulated_times_give_the_simulated_spans(tmp_path: Path) -> None:
    simulated = write_records(tmp_path, lesson())
    merged = merge(tmp_path)
    same = [c for c in simulated.spans.columns if c not in ("collective", "wire_bytes")]
    assert merged.spans.select(same).equals(simulated.spans.select(same))
    assert merged.meta.steps == simulated.meta.steps


def test_the_first_op_of_any_rank_is_at_zero(tmp_path: Path) -> None:
    simulated = write_records(tmp_path, lesson(), rank_0=7_000, rank_1=7_000)
    assert merge(tmp_path).spans.select(TIMES).equals(simulated.spans.select(TIMES))


def test_gloo_moves_an_all_reduce_for_a_reduce_scatter(tmp_path: Path) -> None:
    write_records(tmp_path, lesson())
    spans = merge(tmp_path).spans
    moved = {str(row["name"]): row["wire_bytes"] for row in spans.to_dicts() if row["wire_bytes"]}
    # 768 x 768 + 768 elements of 4 bytes on 2 ranks: an all-gather moves half, an all-reduce all
    assert (moved["AG0"], moved["RS0"]) == (1_181_184, 2_362_368)


def test_the_nth_collective_of_a_communicator_is_one_for_all_ranks(tmp_path: Path) -> None:
    write_records(tmp_path, lesson(n_ranks=3, steps=1))
    spans = merge(tmp_path).spans
    first = spans.filter(spans["rank"] == 0).drop_nulls("collective")
    last = spans.filter(spans["rank"] == 2).drop_nulls("collective")
    assert first["collective"].to_list() == [0, 1, 2, 3, 4, 5, 6, 7]
    assert last["collective"].to_list() == [0, 1, 2, 3, 4, 5, 6, 7]


def test_ranks_that_met_in_different_collectives_are_refused_by_name(tmp_path: Path) -> None:
    write_records(tmp_path, lesson())
    lines = read_lines(tmp_path, 1)
    # Rank 1 never issued its first gather, so its second one met rank 0's first.
    del lines[1]
    write_lines(tmp_path, 1, lines)
    with pytest.raises(RuntimeFailedError, match=r"rank 0 and rank 1 disagree: 'AG0' .* met 'AG1'"):
        merge(tmp_path)


def test_clocks_of_two_hosts_are_brought_together(tmp_path: Path) -> None:
    simulated = write_records(tmp_path, lesson(), rank_1=5_000_000_000)
    _other_clock(tmp_path, offsets=[[1, 0, 5_000_000_000, 900]])
    merged = merge(tmp_path)
    assert merged.spans.select(TIMES).equals(simulated.spans.select(TIMES))
    assert (merged.meta.clock.aligned, merged.meta.clock.error_ns) == (True, 900)
    assert merged.meta.clock.offsets_ns == ((1, -5_000_000_000),)


def test_two_hosts_without_offsets_are_not_called_aligned(tmp_path: Path) -> None:
    write_records(tmp_path, lesson())
    _other_clock(tmp_path, offsets=[])
    clock = merge(tmp_path).meta.clock
    assert (clock.aligned, clock.error_ns) == (False, None)


def _other_clock(directory: Path, offsets: list[list[int]]) -> None:
    first, second = read_lines(directory, 0), read_lines(directory, 1)
    write_lines(directory, 0, [*first, *({"offset": offset} for offset in offsets)])
    write_lines(directory, 1, [{"header": HEADER | {"rank": 1, "clock": "another"}}, *second[1:]])


def test_an_end_before_everybody_came_is_reported(tmp_path: Path) -> None:
    write_records(tmp_path, lesson(), rank_1=5_000_000_000)
    (warning,) = merge(tmp_path).meta.quality.warnings
    assert warning == "16 collectives ended on a rank before another had issued them"


def test_an_op_that_never_ended_is_kept_and_marked(tmp_path: Path) -> None:
    write_records(tmp_path, lesson(steps=1))
    lines = read_lines(tmp_path, 0)
    issued = lines[5]["row"][1]
    cut = [*lines[:5], {"row": [4, issued, None, None]}]
    late = {"status": "peer_lost", "message": "", "time": issued + 10**10}
    write_lines(tmp_path, 0, [*cut, late])
    merged = merge(tmp_path, failure="rank 1 died")
    last = merged.spans.filter(merged.spans["rank"] == 0).to_dicts()[-1]
    assert (last["name"], last["end_ns"] - last["start_ns"]) == ("AG2", 10**10)
    assert last["flags"] == Flag.UNFINISHED
    assert last["wire_bytes"] is None
    assert not merged.meta.finished
    assert merged.meta.quality.warnings == ("rank 1 died",)
    assert [window.rank for window in merged.meta.steps] == [1]


def test_a_line_cut_in_the_middle_ends_the_record(tmp_path: Path) -> None:
    write_records(tmp_path, lesson(steps=1))
    path = tmp_path / "rank-1.jsonl"
    path.write_bytes(path.read_bytes()[:-90])
    merged = merge(tmp_path, failure="rank 1 died")
    assert 0 < merged.spans.filter(merged.spans["rank"] == 1).height < 18


def test_a_rank_that_left_nothing_is_left_out(tmp_path: Path) -> None:
    write_records(tmp_path, lesson(steps=1))
    (tmp_path / "rank-1.jsonl").unlink()
    assert merge(tmp_path, failure="rank 1 died").ranks == (0,)


def test_ranks_that_recorded_no_op_make_no_trace(tmp_path: Path) -> None:
    write_records(tmp_path, lesson(steps=1))
    for rank in (0, 1):
        write_lines(tmp_path, rank, [{"header": HEADER | {"rank": rank}}])
    with pytest.raises(RuntimeFailedError, match="recorded no op"):
        merge(tmp_path)


@pytest.mark.parametrize("content", [None, b"", b"[]", b'{"scenario": {}, "backend": 1}', b"{"])
def test_a_directory_without_a_whole_job_is_refused(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "assignment.json").write_bytes(content)
    with pytest.raises(RunError, match="holds no records of ranks"):
        merge(tmp_path)


def test_provenance_keeps_losses_and_versions(tmp_path: Path) -> None:
    write_records(tmp_path, lesson(steps=1))
    lines = read_lines(tmp_path, 0)
    write_lines(tmp_path, 0, [*lines, {"step": 1, "loss": 0.5}])
    kept = merge(tmp_path).provenance
    assert kept["losses"] == {"0": [0.5], "1": []}
    assert (kept["torch"], kept["hosts"]) == ("2.13.0", ["here"])
