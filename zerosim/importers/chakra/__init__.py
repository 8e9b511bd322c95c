"""Chakra execution traces (.et in protobuf, or JSON; one file a rank) to recordings."""

from __future__ import annotations

import re
from typing import Any, Final

import orjson
import polars as pl

from zerosim.chakra_schema import OWN, NodeType
from zerosim.importers.chakra.groups import groups_of, looks_like_groups
from zerosim.importers.chakra.layout import Layout, lay_out
from zerosim.importers.chakra.nodes import (
    ChakraFile,
    looks_binary,
    read_binary,
    read_json,
)
from zerosim.importers.chakra.rows import lane_of, rows_of, shards_unknown
from zerosim.importers.choice import Choice
from zerosim.importers.content import Content, first_byte
from zerosim.importers.counts import count
from zerosim.importers.recording import Recording, Window, is_absolute, remarks
from zerosim.kinds import SIZED
from zerosim.quality import Quality
from zerosim.trace import MAX_RANKS, Flag, flagged, of_kind

_GRAPH: Final = re.compile(rb'"workload_graph"\s*:')
_RANK: Final = re.compile(r"\.(\d{1,7})\.(?:et|json)(?:\.gz)?$")
_SILENT: Final = (NodeType.INVALID, NodeType.METADATA)
_UNKNOWN: Final = (
    "which step and unit an op belongs to",
    "when the host issued an op",
)
_INFERRED: Final = (
    "when an op began: ops are laid out by what they depend on and how long they took",
)


def sniff(raw: bytes) -> bool:
    """Whether `raw` is a Chakra trace, or the comm_group.json that lies beside one."""
    if looks_binary(raw):  # first: a message of 123 bytes begins like JSON
        return True
    return first_byte(raw) == b"{" and (_GRAPH.search(raw) is not None or looks_like_groups(raw))


def parse(content: Content, choice: Choice) -> tuple[Recording, ...]:
    """The recording in one file; none in a comm_group.json, which is read with the files beside it.

    Raises TraceFileError for a file that cannot be read as a trace.
    """
    binary = looks_binary(content.raw)
    if not binary and _GRAPH.search(content.raw) is None:
        return ()
    found = read_binary(content, choice) if binary else read_json(content)
    told = _told(found.header)
    _count_lost(content, found, told)
    groups = groups_of(found, content, told)
    nodes = [node for node in found.nodes if node.type not in _SILENT]
    layout = lay_out(str(content.path), nodes, [lane_of(node) for node in nodes])
    sizes = {group.name: group.size for group in groups}
    world = count(told.get("world_size"), MAX_RANKS + 1)
    spans = rows_of(nodes, layout, sizes, world)
    shards = shards_unknown(nodes, sizes, world)
    rank = count(told.get("rank"), MAX_RANKS)
    first = spans["start_ns"].min()
    return (
        Recording(
            source=content.path.name,
            rank=_named_rank(content, choice) if rank is None else rank,
            world_size=world,
            device=told["device"] if isinstance(told.get("device"), str) else None,
            spans=spans,
            windows=_windows(told.get("steps")),
            groups=groups,
            absolute=told.get("aligned") is True
            or is_absolute(first if isinstance(first, int) else None),
            quality=_quality(content, found, spans, layout, shards, own=bool(told)),
        ),
    )


def _told(header: dict[str, Any]) -> dict[str, Any]:
    """What zerosim wrote of a run when it exported it; nothing for a file of somebody else."""
    try:
        told = orjson.loads(str(header.get(f"{OWN}run", "{}")))
    except orjson.JSONDecodeError:
        return {}
    return told if isinstance(told, dict) else {}


def _count_lost(content: Content, found: ChakraFile, told: dict[str, Any]) -> None:
    """Our own header says how many ops there were, so that a file cut between two is noticed."""
    ops = told.get("ops")
    lost = ops - len(found.nodes) - found.skipped if type(ops) is int else 0
    if 0 < lost < 2**62:
        found.lost = max(lost, found.lost)
        found.warnings.append(
            f"'{content.path.name}' has lost {lost} of its {ops} ops: export again"
        )


def _named_rank(content: Content, choice: Choice) -> int | None:
    """Chakra's files are called NAME.RANK.et; nothing in them says whose they are.

    Whoever gives the rank is believed.
    """
    found = _RANK.search(content.path.name) if choice.rank is None else None
    return int(found[1]) if found else None


def _windows(listed: object) -> tuple[Window, ...]:
    return tuple(
        Window(*entry)
        for entry in (listed if isinstance(listed, list) else ())
        if isinstance(entry, list)
        and len(entry) == 3  # noqa: PLR2004 - step, start, end
        and all(type(value) is int and -(2**31) < value < 2**62 for value in entry)
        and entry[1] <= entry[2]
        and entry[0] < 2**31
    )


def _quality(
    content: Content,
    found: ChakraFile,
    spans: pl.DataFrame,
    layout: Layout,
    shards: int,
    *,
    own: bool,
) -> Quality:
    name, nodes = content.path.name, found.nodes
    ids = [node.id for node in nodes]
    unsized = spans.filter(of_kind(SIZED) & pl.col("nbytes").is_null()).height
    notes = (
        (not ids, "has no nodes"),
        (len(ids) - len(set(ids)), "has {} nodes with the id of another one"),
        (layout.circling, "has {} nodes that wait for each other: laid out in order"),
        (spans.filter(flagged(Flag.UNTIMED)).height, "has {} ops without a time"),
        (unsized, "has {} collectives of unknown size"),
        (shards, "has {} all-gathers in a group of unknown size: nbytes is what one rank gives"),
        (found.skipped, "has {} nodes that cannot be read: left out"),
    )
    said = remarks(name, notes)
    return Quality(
        events=len(nodes) + found.skipped,
        repaired=found.repaired,
        skipped=found.skipped,
        lost=found.lost,
        unsized=unsized,
        warnings=(*content.warnings, *found.warnings, *said),
        places=tuple(found.places),
        unknown=() if own else (*(_INFERRED if layout.inferred and nodes else ()), *_UNKNOWN),
    )
