"""The nodes of a Chakra file, whether it is protobuf or JSON: what each is, and what it waits for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from sys import intern
from typing import Any, Final

from google.protobuf.message import DecodeError, Message

from zerosim import chakra_schema as schema
from zerosim.chakra_schema import NodeType
from zerosim.errors import TraceFileError
from zerosim.importers.choice import Choice
from zerosim.importers.content import Content
from zerosim.importers.counts import count_in_text
from zerosim.importers.loose_json import parse_json
from zerosim.importers.recording import refuse_graph
from zerosim.quality import MAX_PLACES, Place

_LONGEST: Final = 10
"""Bytes of the longest length: a varint holds seven bits a byte."""
_MOST_FAULTS: Final = 10_000
_MOST_US: Final = 2**52
"""A time after this does not fit into nanoseconds."""
_NAMES: Final = {"Id": "id", "Name": "name", "NodeType": "type", "runtime": "micros"}
_KNOWN: Final = frozenset(("id", "name", "type", "micros", "start", "data_deps", "ctrl_deps"))


@dataclass(frozen=True, slots=True)
class ChakraNode:
    """A node as the file has it: times in µs, 0 where it says nothing; `facts` are its attributes.

    `ctrl_deps` is in files of PyTorch the op that called it, `data_deps` what it has to wait for.
    """

    id: int
    name: str
    type: int
    data_deps: tuple[int, ...]
    ctrl_deps: tuple[int, ...]
    start_us: int
    micros: int
    facts: Mapping[str, Any]
    inputs: str = ""


@dataclass(slots=True)
class ChakraFile:
    """All that a file holds, and what was odd about it. `header`: attributes of the whole."""

    header: dict[str, Any] = field(default_factory=dict)
    nodes: list[ChakraNode] = field(default_factory=list)
    repaired: int = 0
    skipped: int = 0
    lost: int = 0
    warnings: list[str] = field(default_factory=list)
    places: list[Place] = field(default_factory=list)

    def leave_out(self, source: str, byte: int | None, what: str) -> None:
        """Count a node that cannot be read. Raises TraceFileError if that is nearly every one."""
        self.skipped += 1
        if self.skipped > max(_MOST_FAULTS, len(self.nodes)):
            raise TraceFileError(
                f"'{source}' has over {_MOST_FAULTS} broken nodes: copy or record it again"
            )
        if len(self.places) < MAX_PLACES:
            self.places.append(Place(source, byte, what))


def looks_binary(raw: bytes) -> bool:
    """Whether one of the first two messages of `raw` is a node."""
    for count, (_, payload) in enumerate(_frames(raw)):
        if payload is None or count > 1:
            return False
        if (node := _as_node(payload)) is not None and (node.name or node.attr):
            return True
        if not count and not _is_header(payload):
            return False
    return False


def read_binary(content: Content, choice: Choice) -> ChakraFile:
    """The file `content`. Raises TraceFileError if it ends inside a node and may not be salvaged."""
    found, name = ChakraFile(), content.path.name
    for count, (at, payload) in enumerate(_frames(content.raw)):
        if payload is None:
            _end_early(found, content, at, choice)
            break
        message = _as_node(payload)
        if message is None and not count and (head := _header(payload)) is not None:
            found.header = head
        elif message is None:
            found.leave_out(name, at, "no node: its bytes cannot be decoded")
        elif (node := _node(message, found)) is None:
            found.leave_out(name, at, f"node {message.id}: a number out of range")
        else:
            found.nodes.append(node)
            refuse_graph(content.path, len(found.nodes))
    return found


def read_json(content: Content) -> ChakraFile:
    """The JSON form: `{"workload_graph": [metadata, nodes…]}`. Raises TraceFileError."""
    parsed = parse_json(content)
    document = parsed.document if isinstance(parsed.document, dict) else {}
    listed = document.get("workload_graph")
    if not isinstance(listed, list):
        raise TraceFileError(f"'{content.path}' has no list workload_graph: give a Chakra trace")
    refuse_graph(content.path, len(listed))
    found = ChakraFile(repaired=parsed.repaired, warnings=list(parsed.warnings))
    for count, entry in enumerate(listed):
        said = _json_facts(entry)
        if said is not None and (node := _json_node(said)) is not None:
            found.nodes.append(node)
        elif said is not None and not count and "type" not in said:
            found.header = said
        else:
            found.leave_out(content.path.name, None, f"entry {count} of workload_graph is no node")
    return found


def _frames(raw: bytes) -> Iterator[tuple[int, memoryview | None]]:
    """Each message with the byte at which it begins; None where the file ends before it does."""
    view, at = memoryview(raw), 0
    while at < len(raw):
        size, shift, start = 0, 0, at
        for byte in view[at : at + _LONGEST]:
            size |= (byte & 0x7F) << shift
            shift, at = shift + 7, at + 1
            if byte < 0x80:  # noqa: PLR2004 - the highest bit says that another byte follows
                break
        else:
            yield start, None
            return
        if at + size > len(raw):
            yield start, None
            return
        yield start, view[at : at + size]
        at += size


def _as_node(payload: memoryview) -> Message | None:
    """The node in `payload`, else None. A node has a type; metadata has none."""
    try:
        node = schema.Node.FromString(payload)
    except DecodeError:
        return None
    return node if node.type else None


def _is_header(payload: memoryview) -> bool:
    return _header(payload) is not None


def _header(payload: memoryview) -> dict[str, Any] | None:
    try:
        head = schema.GlobalMetadata.FromString(payload)
    except DecodeError:
        return None
    told = {text(a.name): _value(a) for a in head.attr}
    return {**told, "version": text(head.version)} if head.version else told


def _end_early(found: ChakraFile, content: Content, at: int, choice: Choice) -> None:
    if not choice.salvage:
        raise TraceFileError(
            f"'{content.path}' ends inside a node at byte {at}: copy it again, or keep the whole nodes by --salvage"
        )
    found.lost += 1
    found.places.append(Place(content.path.name, at, "the file ends inside this node"))
    found.warnings.append(
        f"'{content.path.name}' ends at byte {at} inside a node: the rest is lost"
    )


def _node(message: Message, found: ChakraFile) -> ChakraNode | None:
    if max(message.start_time_micros, message.duration_micros) > _MOST_US:
        return None
    name = intern(text(message.name))
    found.repaired += "\N{REPLACEMENT CHARACTER}" in name
    return ChakraNode(
        id=message.id,
        name=name,
        type=message.type,
        data_deps=tuple(message.data_deps),
        ctrl_deps=tuple(message.ctrl_deps),
        start_us=message.start_time_micros,
        micros=message.duration_micros,
        facts={intern(text(a.name)): _value(a) for a in message.attr},
        inputs=text(message.inputs.values) if message.type == NodeType.METADATA else "",
    )


def text(raw: bytes) -> str:
    """`raw` as text, odd bytes replaced."""
    return raw.decode("utf-8", errors="replace")


def _value(attribute: Message) -> object:
    which = attribute.WhichOneof("value")
    if which is None or which.endswith("_list"):
        return None
    value = getattr(attribute, which)
    return intern(text(value)) if isinstance(value, bytes) else value


def _json_facts(entry: object) -> dict[str, Any] | None:
    if not isinstance(entry, dict):
        return None
    said: dict[str, Any] = {_NAMES.get(str(key), str(key)): v for key, v in entry.items()}
    attributes = said.pop("attr", None)
    for attribute in attributes if isinstance(attributes, list) else ():
        if isinstance(attribute, dict) and isinstance(attribute.get("name"), str):
            values = [value for key, value in attribute.items() if key.lower().endswith("val")]
            said.setdefault(attribute["name"], values[0] if values else None)
    said["start"] = said.get("start_time_micros", said.get("startTimeMicros", 0))
    said["micros"] = said.get("micros", said.get("duration_micros", said.get("durationMicros", 0)))
    for name, other in (("data_deps", "dataDeps"), ("ctrl_deps", "ctrlDeps")):
        deps = said.get(name, said.get(other))
        said[name] = deps if isinstance(deps, list) else []
    return said


def _json_node(said: dict[str, Any]) -> ChakraNode | None:
    kind = said.get("type")
    if isinstance(kind, str):
        named = NodeType.__members__.get(kind.removesuffix("_NODE"))
        kind = None if named is None else int(named)
    # protobuf's JSON writes long numbers as text.
    id_, start, micros = (
        count_in_text(said.get(k), _MOST_US + 1) for k in ("id", "start", "micros")
    )
    data, ctrl = (
        tuple(count_in_text(dep, _MOST_US + 1) for dep in said[k])
        for k in ("data_deps", "ctrl_deps")
    )
    if type(kind) is not int or not kind or None in (id_, start, micros, *data, *ctrl):
        return None
    return ChakraNode(
        id=id_ or 0,
        name=str(said.get("name", "")),
        type=kind,
        data_deps=tuple(dep for dep in data if dep is not None),
        ctrl_deps=tuple(dep for dep in ctrl if dep is not None),
        start_us=start or 0,
        micros=micros or 0,
        facts={key: value for key, value in said.items() if key not in _KNOWN},
    )
