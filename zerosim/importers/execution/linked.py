"""Device ops that a linker laid into an execution trace (Chakra's "ET+"): their kind and their times."""

from __future__ import annotations

from math import isfinite
from typing import Final

from zerosim.importers.execution.nodes import Node
from zerosim.importers.kineto.facts import Facts, kind_of
from zerosim.kinds import Kind
from zerosim.units import NS_PER_US

_LIBRARIES: Final = ("nccl", "rccl")
_MEMORY: Final = ("memcpy", "memset")
_HOST: Final = ("cpu_", "user_", "python_", "cuda_", "hip_", "overhead")
"""How the categories begin of what runs on the host."""
_LONGEST_STREAM: Final = 20


def moment(node: Node) -> int | None:
    """When a node began, in ns; None if nobody linked a time to it."""
    return _ns(node.attrs.get("ts")) or None  # what could not be timed stands at 0


def span(node: Node) -> tuple[int, int] | None:
    """When a node began and ended, in ns; None if nobody linked times to it."""
    start = moment(node)
    length = _ns(node.attrs.get("inclusive_dur", node.attrs.get("exclusive_dur")))
    return None if start is None or length is None else (start, start + length)


def is_device_op(node: Node) -> bool:
    """Whether a node ran on a stream of a device."""
    category = node.attrs.get("cat")
    on_host = isinstance(category, str) and category.startswith(_HOST)
    return not on_host and isinstance(node.attrs.get("stream"), int | str)


def is_transfer(node: Node) -> bool:
    """Whether a node is a kernel of a communication library."""
    return is_device_op(node) and any(word in node.name.lower() for word in _LIBRARIES)


def stream_of(node: Node) -> str:
    """The name of the stream that a device op ran on."""
    return f"stream {str(node.attrs.get('stream'))[:_LONGEST_STREAM]}"


def facts_of(node: Node, call: Facts | None) -> Facts:
    """What a device op is; `call`: the collective that launched it, if one did."""
    if is_transfer(node):
        by_name = kind_of(node.name)
        return call if call and by_name in (call.kind, Kind.COLLECTIVE) else Facts(by_name)
    return Facts(Kind.MEMORY_OP if node.name.lower().startswith(_MEMORY) else Kind.OTHER)


def _ns(value: object) -> int | None:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    if not isfinite(value) or not 0 <= value < 2**52:
        return None
    return round(value * NS_PER_US)
