"""The few messages of Perfetto's protobuf that a trace of tracks, slices and counters needs.

Names and numbers are those of protos/perfetto/trace of google/perfetto (v59); enums are plain numbers.
"""

from __future__ import annotations

from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

SLICE_BEGIN: Final = 1
SLICE_END: Final = 2
COUNTER: Final = 4
"""Of `TrackEvent.type`."""
EXPLICIT: Final = 3
"""Of `TrackDescriptor.child_ordering`: as `sibling_order_rank` says."""
APART: Final = 2
"""Of `TrackDescriptor.sibling_merge_behavior`: tracks of one name stay several."""
BYTES: Final = 3
"""Of `CounterDescriptor.unit`."""

_MESSAGES: Final = {
    "Trace": (("packet", 1, "TracePacket*"),),
    "TracePacket": (
        ("timestamp", 8, "uint64"),
        ("trusted_packet_sequence_id", 10, "uint32"),
        ("track_event", 11, "TrackEvent"),
        ("sequence_flags", 13, "uint32"),
        ("track_descriptor", 60, "TrackDescriptor"),
    ),
    "TrackEvent": (
        ("debug_annotations", 4, "DebugAnnotation*"),
        ("type", 9, "uint32"),
        ("track_uuid", 11, "uint64"),
        ("categories", 22, "string*"),
        ("name", 23, "string"),
        ("counter_value", 30, "int64"),
        ("flow_ids", 47, "fixed64*"),
        ("terminating_flow_ids", 48, "fixed64*"),
    ),
    "DebugAnnotation": (
        ("int_value", 4, "int64"),
        ("string_value", 6, "string"),
        ("name", 10, "string"),
    ),
    "TrackDescriptor": (
        ("uuid", 1, "uint64"),
        ("name", 2, "string"),
        ("process", 3, "ProcessDescriptor"),
        ("parent_uuid", 5, "uint64"),
        ("counter", 8, "CounterDescriptor"),
        ("child_ordering", 11, "uint32"),
        ("sibling_order_rank", 12, "int32"),
        ("sibling_merge_behavior", 15, "uint32"),
    ),
    "ProcessDescriptor": (("pid", 1, "int32"), ("process_name", 6, "string")),
    "CounterDescriptor": (("unit", 3, "uint32"), ("unit_name", 6, "string")),
}
_PACKAGE: Final = "perfetto.protos"
_Field = descriptor_pb2.FieldDescriptorProto


def _class_of_a_trace() -> Any:  # noqa: ANN401 - protobuf makes its classes at run time
    file = descriptor_pb2.FileDescriptorProto(name="trace.proto", package=_PACKAGE, syntax="proto2")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for label, number, kind in fields:
            field = message.field.add(name=label, number=number)
            field.label = _Field.LABEL_REPEATED if kind.endswith("*") else _Field.LABEL_OPTIONAL
            plain = kind.removesuffix("*")
            if plain in _MESSAGES:
                field.type, field.type_name = _Field.TYPE_MESSAGE, f".{_PACKAGE}.{plain}"
            else:
                field.type = getattr(_Field, f"TYPE_{plain.upper()}")
    pool = descriptor_pool.DescriptorPool()  # its own: Perfetto's classes may be loaded beside it
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.Trace"))


TraceFile: Final = _class_of_a_trace()
"""The class of `Trace`; the bytes of several, one after the other, are one trace."""
