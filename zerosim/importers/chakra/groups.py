"""Which ranks the process groups of a Chakra file have: said in it, or by comm_group.json beside it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

import orjson

from zerosim.importers.chakra.nodes import ChakraFile
from zerosim.importers.content import COMPANION, Content
from zerosim.importers.kineto.facts import ranks_of
from zerosim.trace import MAX_RANKS, Group

_MOST_BYTES: Final = 2**26
_OPENS: Final = re.compile(rb'\s*\{\s*"[^"]{0,300}"\s*:\s*\[\s*\d')


def looks_like_groups(raw: bytes) -> bool:
    """Whether `raw` is a comm_group.json: names of groups, each with a list of ranks."""
    return bool(_listed(raw))


def groups_of(found: ChakraFile, content: Content, told: dict[str, Any]) -> tuple[Group, ...]:
    """The groups: of our own header `told`, of metadata nodes, of comm_group.json."""
    world = told.get("world_size")
    size = world if type(world) is int else None
    groups = {g.name: g for g in (*_own(told.get("groups")), *_from_nodes(found, size))}
    beside = {} if told else _beside(content)  # our own numbers are not our names
    for name, ranks in beside.items():
        groups.setdefault(name, Group(name, len(ranks), ranks))
    return tuple(groups.values())


def _own(listed: object) -> Iterator[Group]:
    for entry in listed if isinstance(listed, list) else ():
        name, size, ranks = entry if isinstance(entry, list) and len(entry) == 3 else (0, 0, 0)  # noqa: PLR2004
        if isinstance(name, str) and type(size) is int and 0 < size <= MAX_RANKS:
            yield Group(name, size, ranks_of(ranks))


def _from_nodes(found: ChakraFile, world: int | None) -> Iterator[Group]:
    """Of nodes `## process_group:init ##`: JSON in the text of a list; no ranks are all ranks."""
    for entry in _entries(node.inputs for node in found.nodes if "pg_name" in node.inputs):
        name, size = entry.get("pg_name"), entry.get("group_size", world)
        ranks = ranks_of(entry.get("ranks"))
        size = len(ranks) if ranks else size
        if isinstance(name, str) and type(size) is int and 0 < size <= MAX_RANKS:
            yield Group(name, size, ranks)


def _entries(texts: Iterable[str]) -> Iterator[dict[str, Any]]:
    for text in texts:
        try:
            listed = orjson.loads(text[2:-2])  # a list of one text, as Python prints it
        except orjson.JSONDecodeError:
            continue
        yield from (e for e in listed if isinstance(e, dict)) if isinstance(listed, list) else ()


def _beside(content: Content) -> dict[str, tuple[int, ...]]:
    if content.beside:
        return _listed(content.beside)
    file = content.path.with_name(COMPANION)
    try:
        if not file.is_file() or file.stat().st_size > _MOST_BYTES:
            return {}
        return _listed(file.read_bytes())
    except OSError:
        return {}


def _listed(raw: bytes) -> dict[str, tuple[int, ...]]:
    if len(raw) > _MOST_BYTES or _OPENS.match(raw) is None:
        return {}
    try:
        document = orjson.loads(raw)
    except orjson.JSONDecodeError:
        return {}
    groups = {name: ranks_of(ranks) for name, ranks in document.items()}
    return {n: r for n, r in groups.items() if r} if all(groups.values()) else {}
