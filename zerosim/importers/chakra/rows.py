"""Chakra nodes as rows of a recording: what a node says of itself, and what zerosim wrote beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import polars as pl

from zerosim.chakra_schema import OWN, CommType, NodeType
from zerosim.importers.chakra.layout import Layout
from zerosim.importers.chakra.nodes import ChakraNode
from zerosim.importers.counts import count
from zerosim.importers.kineto.facts import kind_of
from zerosim.importers.recording import ROWS, Rows
from zerosim.kinds import COMMUNICATION, GATHERED, Kind
from zerosim.trace import Flag

COMM_KINDS: Final = {
    CommType.ALL_REDUCE: Kind.ALL_REDUCE,
    CommType.REDUCE: Kind.REDUCE,
    CommType.ALL_GATHER: Kind.ALL_GATHER,
    CommType.GATHER: Kind.GATHER,
    CommType.SCATTER: Kind.SCATTER,
    CommType.BROADCAST: Kind.BROADCAST,
    CommType.ALL_TO_ALL: Kind.ALL_TO_ALL,
    CommType.REDUCE_SCATTER: Kind.REDUCE_SCATTER,
    CommType.REDUCE_SCATTER_BLOCK: Kind.REDUCE_SCATTER,
    CommType.BARRIER: Kind.BARRIER,
}
_P2P: Final = {NodeType.COMM_SEND: "send", NodeType.COMM_RECV: "recv"}
_MEMORY: Final = (NodeType.MEM_LOAD, NodeType.MEM_STORE)
_HOST: Final = (NodeType.STORAGE, NodeType.BATCH, NodeType.CHECKPOINT)
_BITS: Final[dict[pl.DataType, int]] = {pl.Int64(): 63, pl.Int32(): 31, pl.UInt8(): 8}


def lane_of(node: ChakraNode) -> str:
    """The stream a node runs on: its own, else the thread it was launched from, else by what it does."""
    stream, thread = node.facts.get("stream"), node.facts.get("tid")
    if node.facts.get("is_cpu_op") is True or node.type in _HOST:
        return "host" if thread is None else f"host {thread}"
    if stream is None and node.type not in _P2P:
        stream = thread
    if stream is not None:
        return f"stream {stream}"
    if node.type in _P2P:
        return _P2P[NodeType(node.type)]
    return "collectives" if node.type == NodeType.COMM_COLL else "compute"


def rows_of(
    nodes: Sequence[ChakraNode], layout: Layout, sizes: Mapping[str, int], world: int | None
) -> pl.DataFrame:
    """The rows (columns ROWS) of `nodes`. `sizes`: how many ranks each group has."""
    rows = Rows()
    for node, times in zip(nodes, layout.times, strict=True):
        rows.add(_own_row(node) or _row(node, *times, layout, sizes, world))
    return rows.table()


def _own_row(node: ChakraNode) -> dict[str, Any] | None:
    """What zerosim wrote of an op when it exported it; None for a node of somebody else."""
    if f"{OWN}start_ns" not in node.facts:
        return None
    row: dict[str, Any] = {
        name: _fitting(node.facts.get(OWN + name), dtype) for name, dtype in ROWS.items()
    }
    row["name"], row["flags"] = node.name, row["flags"] or 0
    start, end = row["start_ns"], row["end_ns"]
    whole = None not in (start, end, row["stream"], row["kind"])
    return row if whole and start <= end else None


def _fitting(value: object, dtype: pl.DataType) -> object:
    bits = _BITS.get(dtype)
    if isinstance(dtype, pl.Enum):
        return value if value in dtype.categories else None
    if bits is None:
        return value if isinstance(value, str) else None
    lowest = 0 if bits == 8 else -(2**bits)  # noqa: PLR2004 - flags are the only unsigned column
    return value if type(value) is int and lowest <= value < 2**bits else None


def _row(
    node: ChakraNode,
    start: int,
    end: int,
    layout: Layout,
    sizes: Mapping[str, int],
    world: int | None,
) -> dict[str, Any]:
    kind, facts = _kind(node), node.facts
    communicates = kind in COMMUNICATION
    group = _group(node) if communicates else None
    nbytes = count(facts.get("comm_size" if communicates else "tensor_size"))
    if kind in GATHERED and nbytes is not None:  # Chakra counts what a rank gives
        nbytes *= (sizes.get(group) if group is not None else world) or 1
    silent = start == end and (communicates or layout.inferred or not node.start_us)
    return {
        "stream": lane_of(node),
        "kind": kind.value,
        "name": node.name,
        "start_ns": start,
        "end_ns": end,
        "group": group,
        "nbytes": count(nbytes),
        "flags": int(Flag.UNTIMED) if silent else 0,
    }


def _group(node: ChakraNode) -> str | None:
    name = node.facts.get("pg_name")
    return name if isinstance(name, str) and name else None


def shards_unknown(nodes: Sequence[ChakraNode], sizes: Mapping[str, int], world: int | None) -> int:
    """How many all-gathers there are of which nobody says among how many ranks."""
    return sum(
        _kind(node) in GATHERED
        and f"{OWN}start_ns" not in node.facts
        and not (sizes.get(name) if (name := _group(node)) else world)
        for node in nodes
    )


def _kind(node: ChakraNode) -> Kind:
    if node.facts.get("is_cpu_op") is True or node.type in _HOST:
        return Kind.HOST  # the call of a collective is none
    if node.type in _MEMORY:
        return Kind.MEMORY_OP
    if node.type in _P2P:
        return Kind.P2P
    return _collective(node) if node.type == NodeType.COMM_COLL else Kind.OTHER


def _collective(node: ChakraNode) -> Kind:
    """By `comm_type`; where that is missing by the name, and else 0, which protobuf may leave out."""
    told = node.facts.get("comm_type")
    if told is None:
        named = kind_of(node.name)
        return Kind.ALL_REDUCE if named is Kind.COLLECTIVE else named
    if isinstance(told, str):
        named_type = CommType.__members__.get(told)
        return Kind.COLLECTIVE if named_type is None else COMM_KINDS[named_type]
    known = type(told) is int and told in COMM_KINDS
    return COMM_KINDS[CommType(told)] if known else Kind.COLLECTIVE
