"""Chakra execution traces as protobuf classes: what a file of one rank is made of.

A file is a row of messages, each after its length: one `GlobalMetadata`, then a `Node` an op.
Field numbers are those of et_def.proto of mlcommons/chakra since 2024. Text is read as bytes, which
is the same on the wire: a name that is no UTF-8 must not cost the node.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import Message


class NodeType(IntEnum):
    """What a node does."""

    INVALID = 0
    METADATA = 1
    MEM_LOAD = 2
    MEM_STORE = 3
    COMP = 4
    COMM_SEND = 5
    COMM_RECV = 6
    COMM_COLL = 7
    STORAGE = 8
    BATCH = 9
    CHECKPOINT = 10


class CommType(IntEnum):
    """Which collective a node of type COMM_COLL is: the value of its attribute `comm_type`."""

    ALL_REDUCE = 0
    REDUCE = 1
    ALL_GATHER = 2
    GATHER = 3
    SCATTER = 4
    BROADCAST = 5
    ALL_TO_ALL = 6
    REDUCE_SCATTER = 7
    REDUCE_SCATTER_BLOCK = 8
    BARRIER = 9


_PACKAGE: Final = "ChakraProtoMsg"
_SCALARS: Final = (
    *("double", "float", "int32", "int64", "uint32", "uint64", "sint32", "sint64"),
    *("fixed32", "fixed64", "sfixed32", "sfixed64", "bool", "string", "bytes"),
)
"""The values of an attribute, in the order of their fields: `double_val` 3, `double_list` 4, …"""
_FIRST: Final = 3
_Field = descriptor_pb2.FieldDescriptorProto


def _messages() -> dict[str, type[Message]]:
    file = descriptor_pb2.FileDescriptorProto(
        name="et_def.proto", package=_PACKAGE, syntax="proto3"
    )
    _attribute(file)
    _message(file, "IOInfo", ("values", 1, "bytes"), ("shapes", 2, "bytes"), ("types", 3, "bytes"))
    _message(file, "GlobalMetadata", ("version", 1, "bytes"), ("attr", 2, "AttributeProto*"))
    _message(
        file,
        "Node",
        *(("id", 1, "uint64"), ("name", 2, "bytes"), ("type", 3, "int32")),
        *(("ctrl_deps", 4, "uint64*"), ("data_deps", 5, "uint64*")),
        *(("start_time_micros", 6, "uint64"), ("duration_micros", 7, "uint64")),
        *(("inputs", 8, "IOInfo"), ("outputs", 9, "IOInfo"), ("attr", 10, "AttributeProto*")),
    )
    pool = descriptor_pool.DescriptorPool()  # its own: Chakra's classes may be loaded beside it
    pool.Add(file)
    names = ("AttributeProto", "GlobalMetadata", "Node")
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}"))
        for name in names
    }


def _attribute(file: Message) -> None:
    fields: list[tuple[str, int, str]] = [("name", 1, "bytes"), ("doc_string", 2, "bytes")]
    for place, scalar in enumerate(_SCALARS):
        kind = "bytes" if scalar == "string" else scalar
        _message(file, f"{scalar.title()}List", ("values", 1, f"{kind}*"))
        number = _FIRST + 2 * place
        fields += [(f"{scalar}_val", number, kind), (f"{scalar}_list", number + 1, "")]
    message = _message(file, "AttributeProto", *fields)
    message.oneof_decl.add(name="value")
    for field in message.field[2:]:
        field.oneof_index = 0


def _message(file: Message, name: str, *fields: tuple[str, int, str]) -> Message:
    message = file.message_type.add(name=name)
    for label, number, wanted in fields:
        kind = (wanted or f"{label.removesuffix('_list').title()}List").removesuffix("*")
        field = message.field.add(name=label, number=number)
        field.label = _Field.LABEL_REPEATED if wanted.endswith("*") else _Field.LABEL_OPTIONAL
        if kind in _SCALARS:
            field.type = getattr(_Field, f"TYPE_{kind.upper()}")
        else:
            field.type, field.type_name = _Field.TYPE_MESSAGE, f".{_PACKAGE}.{kind}"
    return message


_CLASSES: Final = _messages()
AttributeProto: Final = _CLASSES["AttributeProto"]
GlobalMetadata: Final = _CLASSES["GlobalMetadata"]
Node: Final = _CLASSES["Node"]

OWN: Final = "zerosim."
"""Before the names of attributes that say what Chakra has no word for; others pass over them."""
