"""A run as Chakra files: every op with its size and what it waits for, and the same table again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.zerosim.exporters.sameness import table
from zerosim.chakra_schema import GlobalMetadata, Node, NodeType
from zerosim.exporters import export
from zerosim.importers import read
from zerosim.trace import Group, Meta, RankClass, Trace, make_trace


def messages(path: Path) -> Iterator[bytes]:
    raw, at = path.read_bytes(), 0
    while at < len(raw):
        size, shift = 0, 0
        while True:
            size, shift, at = size | (raw[at] & 127) << shift, shift + 7, at + 1
            if raw[at - 1] < 128:
                break
        yield raw[at : at + size]
        at += size


def nodes(path: Path) -> list[Any]:
    head, *rest = messages(path)
    assert GlobalMetadata.FromString(head).version == b"0.0.4"
    return [Node.FromString(payload) for payload in rest]


def said(node: Any) -> dict[str, Any]:
    found = {a.name.decode(): getattr(a, a.WhichOneof("value")) for a in node.attr}
    return {key: value for key, value in found.items() if not key.startswith("zerosim.")}


def waits(path: Path) -> dict[str, str]:
    """What each op of the first step waits for; a second op of a name has a prime."""
    named: dict[int, str] = {}
    for node in nodes(path):
        name = node.name.decode()
        while name in named.values():
            name += "'"
        named[node.id] = name
    return {named[n.id]: " ".join(named[d] for d in n.data_deps) for n in nodes(path)}


@pytest.fixture
def small() -> Trace:
    """Two ranks: a gather, a layer, its update, a reduction beside another layer."""
    kinds = ["all_gather", "forward", "backward", "reduce_scatter", "forward", "optimizer"]
    streams = ["comm", "compute", "compute", "comm", "compute", "compute"]
    one: dict[str, list[Any]] = {
        "stream": streams,
        "kind": kinds,
        "name": ["AG0", "F0", "B0", "RS0", "F1", "OPT"],
        "unit": ["0", "0", "0", "0", "1", None],
        "issued_ns": [0, 0, 0, 0, 0, 0],
        "start_ns": [0, 4_000, 6_000, 9_000, 9_000, 13_000],
        "end_ns": [4_000, 6_000, 9_000, 13_000, 10_000, 14_500],
        "step": [1] * 6,
        "group": ["world", None, None, "world", None, None],
        "nbytes": [1000, None, None, 1000, None, None],
        "collective": [0, None, None, 1, None, None],
    }
    columns: dict[str, Any] = {key: value * 2 for key, value in one.items()}
    meta = Meta("small", "simulated", 2, groups=(Group("world", 2, (0, 1)),))
    return make_trace({"rank": [0] * 6 + [1] * 6, **columns}, meta)


def test_every_op_says_what_it_waits_for(small: Trace, tmp_path: Path) -> None:
    export(small, "chakra", tmp_path / "run")
    assert waits(tmp_path / "run" / "run.1.et") == {
        "AG0": "",
        "F0": "AG0",
        "B0": "AG0 F0",
        "RS0": "AG0 B0",
        "F1": "B0",
        "OPT": "RS0 F1",
    }


def test_sizes_are_what_one_rank_gives_as_int64(small: Trace, tmp_path: Path) -> None:
    export(small, "chakra", tmp_path / "run")
    gather, layer, _, reduction, *_ = nodes(tmp_path / "run" / "run.0.et")
    told = {"is_cpu_op": False, "pg_name": b"1"}
    assert said(gather) == {**told, "comm_type": 2, "comm_size": 500}
    assert said(reduction) == {**told, "comm_type": 7, "comm_size": 1000}
    assert said(layer) == {"is_cpu_op": False}
    assert {a.WhichOneof("value") for a in gather.attr if a.name.startswith(b"comm")} == {
        "int64_val"
    }
    assert (gather.type, layer.type) == (NodeType.COMM_COLL, NodeType.COMP)
    assert (layer.start_time_micros, layer.duration_micros) == (4, 2)


def test_files_bear_the_name_of_the_directory_and_the_rank(small: Trace, tmp_path: Path) -> None:
    export(small, "chakra", tmp_path / "zero3.et")
    names = sorted(path.name for path in (tmp_path / "zero3.et").iterdir())
    assert names == ["comm_group.json", "zero3.0.et", "zero3.1.et"]
    listed = json.loads((tmp_path / "zero3.et" / "comm_group.json").read_text())
    assert listed == {"1": [0, 1]}


@pytest.mark.parametrize("which", ["small", "lesson", "gloo", "odd"])
def test_imported_again_it_is_the_same_table(
    which: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    trace: Trace = request.getfixturevalue(which)
    export(trace, "chakra", tmp_path / "run")
    again = read([tmp_path / "run"])
    assert table(again) == table(trace)
    assert set(again.meta.steps) == set(trace.meta.steps)
    assert again.meta.groups == trace.meta.groups
    assert again.meta.clock.aligned == (trace.meta.clock.aligned or len(trace.ranks) == 1)
    assert (again.meta.world_size, again.meta.device) == (trace.meta.world_size, trace.meta.device)


def test_nothing_waits_for_what_comes_later(gloo: Trace, tmp_path: Path) -> None:
    export(gloo, "chakra", tmp_path / "run")
    found = {node.id: node for node in nodes(tmp_path / "run" / "run.0.et")}
    ended: set[int] = set()
    for node in sorted(found.values(), key=said_end):
        assert set(node.data_deps) <= ended
        ended.add(node.id)


def said_end(node: Any) -> tuple[int, int]:
    values = {a.name: a.int64_val for a in node.attr}
    return values[b"zerosim.end_ns"], node.id


def test_a_class_of_ranks_is_written_for_each_of_its_ranks(small: Trace, tmp_path: Path) -> None:
    kept = make_trace(
        small.spans.filter(small.spans["rank"] == 0),
        replace(
            small.meta,
            world_size=4,
            groups=(Group("world", 4, (0, 1, 2, 3)),),
            classes=(RankClass(0, ((0, 3),)),),
        ),
    )
    export(kept, "chakra", tmp_path / "run")
    assert read([tmp_path / "run"]).ranks == (0, 1, 2, 3)  # the header has 123 bytes, which is "{"
    assert said(nodes(tmp_path / "run" / "run.3.et")[0])["comm_size"] == 250


def test_one_name_of_several_groups_is_told_apart_by_who_took_part(tmp_path: Path) -> None:
    trace = make_trace(
        {
            "rank": [0, 1, 2, 3],
            "stream": "comm",
            "kind": "all_reduce",
            "name": "AR",
            "start_ns": 0,
            "end_ns": 1000,
            "group": "node",
            "nbytes": 8,
            "collective": [0, 0, 1, 1],
        },
        Meta("nodes", "simulated", 4, groups=(Group("node", 2),)),
    )
    export(trace, "chakra", tmp_path / "run")
    assert json.loads((tmp_path / "run" / "comm_group.json").read_text()) == {
        "1": [0, 1],
        "2": [2, 3],
    }
    groups = [said(nodes(tmp_path / "run" / f"run.{r}.et")[0])["pg_name"] for r in range(4)]
    assert groups == [b"1", b"1", b"2", b"2"]


@pytest.mark.parametrize("kind", ["p2p", "wait", "memory_op", "copy"])
def test_what_chakra_has_no_type_for_is_computing(kind: str, tmp_path: Path) -> None:
    trace = make_trace(
        {"rank": [0], "stream": "s", "kind": kind, "name": "x", "start_ns": 5, "end_ns": 2005},
        Meta("odd", "imported", 1),
    )
    export(trace, "chakra", tmp_path / "run")
    (node,) = nodes(tmp_path / "run" / "run.0.et")
    assert (node.type, node.duration_micros) == (NodeType.COMP, 2)
    assert table(read([tmp_path / "run"])) == table(trace)


def test_chakras_own_classes_read_it_and_write_the_same_bytes(
    lesson: Trace, tmp_path: Path
) -> None:
    peer: Any = pytest.importorskip("chakra.schema.protobuf.et_def_pb2", reason="needs mlc-chakra")
    export(lesson, "chakra", tmp_path / "run")
    head, *rest = messages(tmp_path / "run" / "run.0.et")
    assert peer.GlobalMetadata.FromString(head).SerializeToString() == head
    for payload in rest:
        assert peer.Node.FromString(payload).SerializeToString() == payload


def test_a_file_cut_between_two_ops_is_noticed(small: Trace, tmp_path: Path) -> None:
    export(small, "chakra", tmp_path / "run")
    path = tmp_path / "run" / "run.0.et"
    path.write_bytes(path.read_bytes()[: -len(nodes(path)[-1].SerializeToString()) - 2])
    quality = read([path]).meta.quality
    assert quality.lost == 1
    assert "'run.0.et' has lost 1 of its 6 ops: export again" in quality.warnings
