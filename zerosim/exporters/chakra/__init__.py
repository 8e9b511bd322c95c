"""A run as Chakra execution traces, one file a rank, and comm_group.json: what ASTRA-sim reads."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import Any, Final

import orjson
import polars as pl
from google.protobuf import proto
from google.protobuf.message import Message

from zerosim.chakra_schema import OWN, AttributeProto, GlobalMetadata, Node, NodeType
from zerosim.disk import whole_directory
from zerosim.exporters.chakra.groups import Numbered, number_groups
from zerosim.exporters.chakra.waits import waits_of
from zerosim.importers.chakra.rows import COMM_KINDS
from zerosim.kinds import GATHERED, HOST_SIDE, Kind
from zerosim.trace import Trace
from zerosim.units import NS_PER_US

_VERSION: Final = b"0.0.4"
_COLLECTIVES: Final = {kind: told for told, kind in reversed(COMM_KINDS.items())}
"""By kind, the first type of it.

Messages and collectives of unknown kind have no receiver or type: they are written as computing.
"""
_TOLD: Final = (
    *("kind", "stream", "unit", "issued_ns", "start_ns", "end_ns", "step", "micro_batch"),
    *("group", "elements", "nbytes", "wire_bytes", "dtype", "bucket", "flags"),
)
"""Columns that each node bears beside what Chakra has a word for, so that it can be read again."""


def write(trace: Trace, path: Path) -> None:
    """Write NAME.RANK.et for every rank, and comm_group.json, into the directory `path`.

    NAME is the directory's. A rank of a class without rows of its own does what its class does.
    Raises OSError.
    """
    source = {rank: c.representative for c in trace.meta.classes for rank in c.ranks}
    source |= {rank: rank for rank in trace.ranks}
    ranks = tuple(sorted(source))
    groups = number_groups(trace, ranks)
    spans = trace.spans.partition_by("rank", as_dict=True)
    name = path.stem if path.suffix == ".et" else path.name
    nodes: dict[tuple[object, ...], bytes] = {}
    with whole_directory(path) as folder:
        for rank in ranks:
            kept = source[rank], tuple(groups.numbers.get((n, rank)) for n in groups.sizes)
            if kept not in nodes:
                nodes[kept] = _nodes(spans[(source[rank],)], rank, groups, trace.begin_ns)
            head = _framed(_header(trace, rank, source[rank], spans[(source[rank],)].height))
            (folder / f"{name}.{rank}.et").write_bytes(head + nodes[kept])
        listed = {str(number): members for number, members in groups.ranks.items()}
        (folder / "comm_group.json").write_bytes(orjson.dumps(listed))


def _header(trace: Trace, rank: int, source: int, n_ops: int) -> Message:
    meta = trace.meta
    told = {
        "rank": rank,
        "ops": n_ops,
        "world_size": meta.world_size,
        "device": meta.device,
        "aligned": meta.clock.aligned,
        "steps": [(s.step, s.start_ns, s.end_ns) for s in meta.steps if s.rank == source],
        "groups": [(g.name, g.size, g.ranks) for g in meta.groups],
    }
    # Never empty: other readers take a message of no bytes for the end of the file.
    return GlobalMetadata(
        version=_VERSION,
        attr=[AttributeProto(name=f"{OWN}run".encode(), string_val=orjson.dumps(told))],
    )


def _nodes(spans: pl.DataFrame, rank: int, groups: Numbered, begin_ns: int) -> bytes:
    rows = spans.rows(named=True)
    return b"".join(
        _framed(_node(place, row, after, rank, groups, begin_ns))
        for place, (row, after) in enumerate(zip(rows, waits_of(rows), strict=True), start=1)
    )


def _node(
    place: int, row: dict[str, Any], after: list[int], rank: int, groups: Numbered, begin_ns: int
) -> Message:
    kind = Kind(row["kind"])
    start, end = (moment - begin_ns for moment in (row["start_ns"], row["end_ns"]))
    node = Node(
        id=place,
        name=row["name"].encode(),
        type=NodeType.COMM_COLL if kind in _COLLECTIVES else NodeType.COMP,
        data_deps=[j + 1 for j in after],
        start_time_micros=start // NS_PER_US,
        duration_micros=end // NS_PER_US - start // NS_PER_US,
    )
    _say(node, "is_cpu_op", kind in HOST_SIDE)
    if kind in _COLLECTIVES:
        _say_collective(node, kind, row, rank, groups)
    for column in _TOLD:
        _say(node, OWN + column, row[column])
    _say(node, f"{OWN}sequence", row["collective"])
    return node


def _say_collective(
    node: Message, kind: Kind, row: dict[str, Any], rank: int, groups: Numbered
) -> None:
    """Type, size and group. Chakra's size is what one rank gives: of an all-gather, its shard."""
    nbytes = row["nbytes"]
    if nbytes is not None and kind in GATHERED:
        nbytes = -(-nbytes // groups.sizes.get(row["group"], 1))
    _say(node, "comm_type", int(_COLLECTIVES[kind]))
    _say(node, "comm_size", nbytes)
    if row["group"] is not None:
        number = groups.numbers.get((row["group"], rank))
        _say(node, "pg_name", None if number is None else str(number))


def _say(node: Message, name: str, value: str | float | None) -> None:
    """Add an attribute; what is unknown is absent. Sizes are int64: a uint64 was read as 0."""
    if value is None:
        return
    attribute = node.attr.add(name=name.encode())
    if isinstance(value, bool):
        attribute.bool_val = value
    elif isinstance(value, str):
        attribute.string_val = value.encode()
    else:
        attribute.int64_val = value


def _framed(message: Message) -> bytes:
    out = BytesIO()
    proto.serialize_length_prefixed(message, out)
    return out.getvalue()
