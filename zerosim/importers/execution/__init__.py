"""PyTorch execution traces (one a rank) to recordings: what was called, in which order, how big."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import orjson
import polars as pl

from zerosim.errors import TraceFileError
from zerosim.importers.choice import Choice
from zerosim.importers.content import Content, first_byte
from zerosim.importers.counts import count
from zerosim.importers.execution.calls import Op, ops, sequences
from zerosim.importers.execution.nodes import Node, read_nodes
from zerosim.importers.execution.steps import read_steps
from zerosim.importers.kineto.facts import ranks_of
from zerosim.importers.loose_json import Parsed, parse_json
from zerosim.importers.recording import (
    MAX_GROUPS,
    MAX_MEMBERS,
    MAX_UNLISTED,
    Recording,
    is_absolute,
    refuse_graph,
    remarks,
    tabulate,
)
from zerosim.kinds import SIZED
from zerosim.quality import MAX_PLACES, Place, Quality
from zerosim.trace import MAX_RANKS, Flag, Group
from zerosim.units import NS_PER_US

_INIT: Final = "## process_group:init ##"
_UNTIMED: Final = (
    "when anything ran and how long: an execution trace tells the order of calls alone"
)
_LISTED: Final = re.compile(rb'"nodes"\s*:\s*\[')
_RANK: Final = "the rank: it is this rank's place in the largest group that it names"
_ADDRESSES: Final = "the ranks of groups that are called by number alone"
_UNMARKED: Final = "steps: the trace marks none"
_OUTSIDE: Final = "the step of ops that were called outside of all marked steps"


def sniff(raw: bytes) -> bool:
    """Whether `raw` is a JSON object with a schema and nodes."""
    if first_byte(raw) != b"{":
        return False
    return b'"schema"' in raw and _LISTED.search(raw) is not None


def parse(content: Content, choice: Choice) -> tuple[Recording, ...]:
    """The recording in one file. Raises TraceFileError for what is no execution trace."""
    parsed = parse_json(content)
    document = parsed.document
    listed = document.get("nodes") if isinstance(document, dict) else None
    if not isinstance(document, dict) or not isinstance(listed, list):
        raise TraceFileError(f"'{content.path}' has no list of nodes: give an execution trace")
    refuse_graph(content.path, len(listed))
    nodes, lost = read_nodes(listed)
    listed.clear()  # the tree takes as much as what is made of it
    made, described = _groups(nodes)
    steps = read_steps(nodes)
    found = ops(nodes, made[0].name if len(made) == 1 else None, steps)
    groups = (*made, *_called(found, described))
    begin = _begin(document, found)
    place = _place(found, described)
    recording = Recording(
        source=content.path.name,
        rank=None if choice.rank is not None else place,  # whoever gives the rank is believed
        world_size=next((g.size for g in made if described[g.name] == "default_pg"), None),
        spans=_spans(found, begin),
        windows=steps.windows,
        groups=groups,
        absolute=is_absolute(begin),
        quality=_quality(
            content,
            parsed,
            nodes,
            lost,
            found,
            unknown=(
                *((_UNTIMED,) if all(op.span is None for op in found) else ()),
                *((_RANK,) if place is not None and choice.rank is None else ()),
                *((_ADDRESSES,) if len(groups) > len(made) else ()),
                *((_UNMARKED,) if not steps.marked else ()),
                *((_OUTSIDE,) if steps.marked and any(op.step is None for op in found) else ()),
            ),
        ),
    )
    return (recording,)


def _groups(nodes: Sequence[Node]) -> tuple[tuple[Group, ...], dict[str, str]]:
    """The process groups that were made, and what each is for."""
    found: dict[str, Group] = {}
    described: dict[str, str] = {}
    members = 0
    for entry in (e for node in nodes if node.name == _INIT for e in _listed(node)):
        name, size = entry.get("pg_name"), count(entry.get("group_size"))
        ranks = ranks_of(entry.get("ranks"))
        size = size or (len(ranks) if ranks else None)
        if not isinstance(name, str) or not size or size > MAX_RANKS or len(found) >= MAX_GROUPS:
            continue
        if entry.get("ranks") == [] and size <= MAX_UNLISTED:
            ranks = tuple(range(size))  # an empty list means all
        members += len(ranks or ())
        fits = ranks and len(set(ranks)) == size
        found[name] = Group(name, size, ranks if fits and members <= MAX_MEMBERS else None)
        described[name] = str(entry.get("pg_desc", ""))
    return tuple(found.values()), described


def _called(found: Sequence[Op], known: dict[str, str]) -> list[Group]:
    """The groups that are called but were not made: their size is known, their ranks are not."""
    called: dict[str, Group] = {}
    for op in found:
        name, size = op.facts.group, op.facts.group_size
        if name and size and name not in known and size <= MAX_RANKS and len(called) < MAX_GROUPS:
            called.setdefault(name, Group(name, size))
    return list(called.values())


def _listed(node: Node) -> list[dict[str, Any]]:
    written = node.inputs[0] if node.inputs else None
    try:
        listed = orjson.loads(written) if isinstance(written, str) else []
    except orjson.JSONDecodeError:
        return []
    return [e for e in listed if isinstance(e, dict)] if isinstance(listed, list) else []


def _begin(document: dict[str, Any], found: Sequence[Op]) -> int:
    """Where what has no time stands: at the first time that is known, in ns."""
    times = [op.span[0] for op in found if op.span] + [op.issued_ns for op in found if op.issued_ns]
    return min(times, default=(count(document.get("start_ts")) or 0) % 2**52 * NS_PER_US)


def _place(found: Sequence[Op], described: dict[str, str]) -> int | None:
    """This rank's place in the default group, or in the largest one if none is called so."""
    told = [op for op in found if op.place is not None and op.facts.group_size]
    default = [op for op in told if described.get(op.facts.group or "") == "default_pg"]
    largest = max((op.facts.group_size or 0 for op in told), default=0)
    chosen = default or [op for op in told if op.facts.group_size == largest]
    places = {op.place for op in chosen}
    place = places.pop() if len(places) == 1 else None
    return place if place is not None and place < largest <= MAX_RANKS else None


def _spans(found: Sequence[Op], begin: int) -> pl.DataFrame:
    told = [op.facts for op in found]
    moments = [op.issued_ns or begin for op in found]
    spans = [op.span or (at, at) for op, at in zip(found, moments, strict=True)]
    return tabulate(
        {
            "stream": [op.stream for op in found],
            "kind": [f.kind for f in told],
            "name": [op.name for op in found],
            "unit": [op.unit for op in found],
            "issued_ns": [op.issued_ns for op in found],
            "start_ns": [start for start, _ in spans],
            "end_ns": [end for _, end in spans],
            "step": [op.step for op in found],
            "group": [f.group for f in told],
            "elements": [f.elements for f in told],
            "nbytes": [f.nbytes for f in told],
            "dtype": [f.dtype for f in told],
            "flags": [0 if op.span else int(Flag.UNTIMED) for op in found],
            "sequence": sequences(found),
        },
    )


def _quality(
    content: Content,
    parsed: Parsed,
    nodes: Sequence[Node],
    lost: Sequence[int],
    found: Sequence[Op],
    *,
    unknown: tuple[str, ...],
) -> Quality:
    name = content.path.name
    unsized = sum(op.facts.elements is None and op.facts.kind in SIZED for op in found)
    twice = len(nodes) - len({node.id for node in nodes})
    notes = (
        (not found, "has no collectives and no ops"),
        (unsized, "has {} collectives of unknown size"),
        (twice, "has {} nodes with the number of another"),
        (len(lost), "has {} nodes without a number or a name: left out"),
    )
    return Quality(
        events=len(nodes) + len(lost) + parsed.skipped,
        repaired=parsed.repaired,
        skipped=parsed.skipped + len(lost),
        lost=parsed.lost,
        unsized=unsized,
        warnings=(*content.warnings, *parsed.warnings, *remarks(name, notes)),
        places=(
            *parsed.places,
            *(Place(name, None, f"node {i} has no number or name") for i in lost[:MAX_PLACES]),
        ),
        unknown=unknown,
    )
