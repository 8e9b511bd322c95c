"""Runs on many machines: parts of each node become one run, whatever is missing; strangers' files are refused."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.runtime.written import HEADER, lesson, read_lines, write_lines, write_records
from zerosim.cli import run as run_command
from zerosim.errors import InputError, RunError
from zerosim.store import load_run
from zerosim_runtime import places
from zerosim_runtime.node import merge_nodes
from zerosim_runtime.places import ASSIGNMENT_FILE
from zerosim_runtime.records import read_record


def _parts(directory: Path, n_ranks: int = 4, per_node: int = 2) -> list[Path]:
    """The records of a run as its nodes wrote them, each in a directory of its own."""
    whole = directory / "whole"
    write_records(whole, lesson(n_ranks))
    nodes = []
    for node in range(n_ranks // per_node):
        place = directory / "parts" / f"node-{node}"
        place.mkdir(parents=True)
        (place / ASSIGNMENT_FILE).write_bytes((whole / ASSIGNMENT_FILE).read_bytes())
        (place / "torchrun.log").write_bytes(b"")
        for rank in range(node * per_node, (node + 1) * per_node):
            lines = read_lines(whole, rank)
            lines[0]["header"] |= {"local_rank": rank % per_node}
            write_lines(place, rank, lines, last_op=8)
        nodes.append(place)
    return nodes


def test_the_parts_of_all_nodes_are_one_run(tmp_path: Path) -> None:
    nodes = _parts(tmp_path)
    below, each = merge_nodes(nodes[0].parent), merge_nodes(nodes)
    assert below.meta == each.meta
    assert below.meta.finished
    assert below.ranks == (0, 1, 2, 3)
    assert below.spans.equals(each.spans)


def test_ranks_that_are_missing_are_named_and_the_run_is_unfinished(tmp_path: Path) -> None:
    nodes = _parts(tmp_path, n_ranks=8)
    merged = merge_nodes([nodes[0], nodes[2]])
    assert not merged.meta.finished
    assert merged.meta.quality.warnings[0] == "ranks 2, 3, 6, 7 of 8 left no record"
    assert merged.ranks == (0, 1, 4, 5)


def test_a_rank_that_failed_on_one_node_is_named(tmp_path: Path) -> None:
    nodes = _parts(tmp_path)
    lines = read_lines(nodes[1], 3)
    write_lines(nodes[1], 3, lines[:-1], last_op=8)
    (nodes[1] / "torchrun.log").write_text("failed (exitcode: -9) local_rank: 1 (pid: 12) of x\n")
    merged = merge_nodes(nodes)
    assert not merged.meta.finished
    assert merged.meta.quality.warnings[0].startswith("rank 3 was killed by SIGKILL in 'RS2'")


def test_the_record_of_the_last_start_counts(tmp_path: Path) -> None:
    """After a restart nodes may be numbered otherwise: rank 1 was first on node 0, then on node 1."""
    nodes = _parts(tmp_path)
    lines = read_lines(nodes[0], 1)
    lines[0]["header"] |= {"host": "the second"}
    write_lines(nodes[1], 1, [lines[0], {"attempt": 5}, *lines[1:]], last_op=8)
    record = read_record(nodes, 1)
    assert record is not None
    assert record.header["host"] == "the second"


def test_ranks_of_another_start_are_no_ranks_of_this_run(tmp_path: Path) -> None:
    """Node 0 of one run beside node 1 of an earlier one, which was asked for the same."""
    nodes = _parts(tmp_path)
    for rank in range(4):
        lines = read_lines(nodes[rank // 2], rank)
        attempt = {"attempt": 6 if rank < 2 else 5}
        write_lines(nodes[rank // 2], rank, [lines[0], attempt, *lines[1:]], last_op=8)
    merged = merge_nodes(nodes)
    assert merged.meta.quality.warnings[0] == "ranks 2, 3 of 4 left no record"
    assert merged.ranks == (0, 1)


def test_two_records_of_one_rank_are_refused(tmp_path: Path) -> None:
    nodes = _parts(tmp_path)
    write_lines(nodes[1], 1, read_lines(nodes[0], 1), last_op=8)
    with pytest.raises(RunError, match="two directories hold records of rank 1: give those of one"):
        merge_nodes(nodes)


def test_directories_of_different_runs_are_refused(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    nodes, others = _parts(tmp_path / "a"), _parts(tmp_path / "b", n_ranks=2)
    with pytest.raises(
        RunError, match="were asked to do different things: they are not of one run"
    ):
        merge_nodes([nodes[0], others[0]])


def test_a_directory_without_records_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        RunError, match=r"holds no records of ranks \(there is no assignment.json\)"
    ):
        merge_nodes(tmp_path)


def _line(**fields: Any) -> Callable[[Path], None]:
    def damage(place: Path) -> None:
        lines = read_lines(place, 3)
        write_lines(place, 3, [*lines[:-1], fields, lines[-1]], last_op=8)

    return damage


def _header(**fields: Any) -> Callable[[Path], None]:
    def damage(place: Path) -> None:
        write_lines(
            place, 3, [{"header": HEADER | {"rank": 3} | fields}, *read_lines(place, 3)[1:]]
        )

    return damage


def _link(place: Path) -> None:
    (place / "rank-3.jsonl").unlink()
    (place / "rank-3.jsonl").symlink_to("/etc/passwd")


def _pipe(place: Path) -> None:
    (place / "rank-3.jsonl").unlink()
    os.mkfifo(place / "rank-3.jsonl")


def _assignment(place: Path) -> None:
    content = orjson.loads((place / ASSIGNMENT_FILE).read_bytes())
    content["scenario"]["cluster"]["world_size"] = 10**9
    for node in place.parent.iterdir():
        (node / ASSIGNMENT_FILE).write_bytes(orjson.dumps(content))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (_line(row=[10**6, 1, 2, 3]), "rank 3 has an op 1000000, the plan has"),
        (_line(row=[-1, 1, 2, 3]), "rank 3 has an op -1, the plan has"),
        (_line(row=[1, 2]), "is not what a rank writes"),
        (_line(row=[1, "soon", 2, 3]), "is not what a rank writes"),
        (_line(row=[1, 2**63, None, None]), "is not what a rank writes"),
        (_line(row=[1, True, None, None]), "is not what a rank writes"),
        (_line(row=7), "is not what a rank writes"),
        (_line(memory=[1, 2, 3]), "is not what a rank writes"),
        (_line(offset=[1, 2, 3]), "is not what a rank writes"),
        (_line(offset=[1, 2, 3, 1e99]), "is not what a rank writes"),
        (_line(step="two", loss=1), "is not what a rank writes"),
        (_line(attempt="first"), "is not what a rank writes"),
        (_header(rank=0), "its header is of another rank"),
        (_header(backend=["../.."]), "the record of rank 3 has no 'backend': copy it again"),
        (_header(unix_ns=1e300), "the record of rank 3 has no 'unix_ns': copy it again"),
        (_link, "rank-3.jsonl' is no plain file: copy the files that the ranks wrote"),
        (_pipe, "rank-3.jsonl' is no plain file: copy the files that the ranks wrote"),
        (_assignment, "world_size is 1000000000: "),
    ],
)
def test_what_no_rank_wrote_is_refused(
    damage: Callable[[Path], None], message: str, tmp_path: Path
) -> None:
    nodes = _parts(tmp_path)
    damage(nodes[1])
    with pytest.raises(InputError, match=message):
        merge_nodes(nodes)


def test_a_file_that_is_too_big_is_refused_unread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = _parts(tmp_path)
    monkeypatch.setattr(places, "MAX_FILE_BYTES", 100)
    with pytest.raises(RunError, match="is over 100 bytes: no rank writes that much"):
        merge_nodes(nodes)


def test_ranks_outside_the_world_are_not_of_the_run(tmp_path: Path) -> None:
    nodes = _parts(tmp_path)
    write_lines(nodes[1], 77, read_lines(nodes[1], 3), last_op=8)
    assert merge_nodes(nodes).ranks == (0, 1, 2, 3)


def test_merge_is_a_verb(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nodes = _parts(tmp_path)
    assert run_command(["merge", str(nodes[0].parent), "-o", str(tmp_path / "run"), "--json"]) == 0
    assert orjson.loads(capsys.readouterr().out)["world_size"] == 4
    assert load_run(tmp_path / "run").meta.finished
    assert run_command(["merge", str(tmp_path / "nowhere"), "-o", str(tmp_path / "run")]) == 2
    assert "nowhere' is no directory: give those that `zerosim trace`" in capsys.readouterr().err
