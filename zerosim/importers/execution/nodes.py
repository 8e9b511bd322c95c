"""Nodes of a PyTorch execution trace, alike in all generations of its schema."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeGuard

from zerosim.importers.counts import count, total
from zerosim.importers.kineto.facts import dtype_of

_TYPE: Final = re.compile(r"Tensor\(([^()]{1,40})\)")
_LONGEST_NAME: Final = 256
_TENSOR_FIELDS: Final = (6, 7)
_NUMEL: Final = 3
_MOST_TENSORS: Final = 4096
_LINKED: Final = ("ts", "inclusive_dur", "exclusive_dur", "stream", "cat")
"""What a linker adds beside the attributes."""


@dataclass(frozen=True, slots=True)
class Node:
    """One op: who called it (0: nobody), what it was given and gave, and what else is said of it.

    `inputs` and `outputs` are values as the file nests them; `input_types` names their types.
    """

    id: int
    name: str
    parent: int
    inputs: Sequence[Any]
    outputs: Sequence[Any]
    input_types: Sequence[Any]
    output_types: Sequence[Any]
    attrs: dict[str, Any] = field(default_factory=dict)


def read_nodes(listed: Sequence[Any]) -> tuple[tuple[Node, ...], tuple[int, ...]]:
    """The nodes in order of call, and the places in `listed` of those that cannot be read."""
    read = [_node(entry) for entry in listed]
    nodes = sorted((node for node in read if node is not None), key=lambda node: node.id)
    return tuple(nodes), tuple(i for i, node in enumerate(read) if node is None)


def elements(values: object) -> int | None:
    """The elements of a tensor, or of a list of them; None if that is not what `values` is.

    A tensor is [its id, its storage, offset, elements, bytes of one, device], nested in lists at most
    twice.
    """
    if _is_tensor(values):
        return count(values[_NUMEL])
    if not isinstance(values, list) or not 0 < len(values) <= _MOST_TENSORS:
        return None
    flat = [tensor for part in values for tensor in _tensors(part)]
    return total([count(t[_NUMEL]) if _is_tensor(t) else None for t in flat])


def dtype(types: Sequence[Any], index: int) -> str | None:
    """The torch name of the dtype in `types[index]`, as in `GenericList[Tensor(c10::Half)]`."""
    written = types[index] if index < len(types) else None
    found = set(_TYPE.findall(written[:_LONGEST_NAME])) if isinstance(written, str) else set()
    return dtype_of(found.pop()) if len(found) == 1 else None


def _tensors(part: object) -> list[Any]:
    if isinstance(part, list) and not _is_tensor(part) and len(part) <= _MOST_TENSORS:
        return part
    return [part]


def _is_tensor(value: object) -> TypeGuard[list[Any]]:
    return (
        isinstance(value, list)
        and len(value) in _TENSOR_FIELDS
        and all(type(v) is int for v in value[:5])
        and isinstance(value[5], str)
    )


def _node(entry: object) -> Node | None:
    if not isinstance(entry, dict):
        return None
    number, name = count(entry.get("id")), entry.get("name")
    if number is None or not isinstance(name, str):
        return None
    name = name[:_LONGEST_NAME]
    if isinstance(entry.get("inputs"), dict):
        given, gave = entry["inputs"], entry.get("outputs")
        gave = gave if isinstance(gave, dict) else {}
        return Node(
            *(number, name, count(entry.get("ctrl_deps")) or 0),
            *(_list(given.get("values")), _list(gave.get("values"))),
            *(_list(given.get("types")), _list(gave.get("types"))),
            {**_timing(entry), **_attributes(entry.get("attrs"))},
        )
    return Node(
        *(number, name, count(entry.get("parent")) or 0),
        *(_list(entry.get("inputs")), _list(entry.get("outputs"))),
        *(_list(entry.get("input_types")), _list(entry.get("output_types"))),
        _timing(entry),
    )


def _timing(entry: dict[str, Any]) -> dict[str, Any]:
    return {key: entry[key] for key in _LINKED if key in entry}


def _attributes(listed: object) -> dict[str, Any]:
    return {
        attr["name"]: attr.get("value")
        for attr in _list(listed)
        if isinstance(attr, dict)
        and isinstance(attr.get("name"), str)
        and attr["name"] not in _LINKED  # compiled ops have a stream of the host
    }


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
