"""NCCL's NVTX payloads say how big a collective is, of which communicator, and which rank this is."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest

from zerosim.importers import read
from zerosim.importers.nsys.payload import unpack

SESSION = Any
"""The hand-made export of conftest.py, which cannot be imported from here."""
COMM = 0xABC
GATHER, INIT = 7, 8
SCHEMAS = {
    (1, GATHER): {"NCCL communicator ID": 0, "Message size [bytes]": 8},
    (1, INIT): {"NCCL communicator ID": 0, "No. of ranks": 8, "Rank": 12},
}


def payload(schema: int, fields: bytes) -> bytes:
    return struct.pack("<IIIIQQ", 1, 0, schema, 0, len(fields), 32 + len(fields)) + fields


def moves(nbytes: int) -> bytes:
    return payload(GATHER, struct.pack("<QQ", COMM, nbytes))


def joins(rank: int, size: int) -> bytes:
    return payload(INIT, struct.pack("<Qii", COMM, size, rank))


def write(session: SESSION, *payloads: bytes) -> Path:
    """The export, with one of `payloads` for each of its first marks."""
    entries = [
        f"(1, {schema}, '{name}', {offset or 'NULL'})"
        for (_, schema), fields in SCHEMAS.items()
        for name, offset in fields.items()
    ]
    path: Path = session.write(
        "CREATE TABLE NVTX_PAYLOAD_SCHEMA_ENTRIES (domainId, schemaId, name, offset)",
        f"INSERT INTO NVTX_PAYLOAD_SCHEMA_ENTRIES VALUES {', '.join(entries)}",
        "ALTER TABLE NVTX_EVENTS ADD COLUMN binaryData",
        *(
            f"UPDATE NVTX_EVENTS SET binaryData = x'{told.hex()}' WHERE rowid = {row}"
            for row, told in enumerate(payloads, 1)
        ),
    )
    return path


def sizes(path: Path) -> list[tuple[Any, ...]]:
    return read([path]).spans.select("kind", "group", "nbytes").rows()


def test_a_gather_is_as_many_times_bigger_as_there_are_ranks(session: SESSION) -> None:
    session.mark("ncclCommInitRank", 0, 5)
    session.mark("ncclAllGather", 40, 60)
    session.kernel("ncclDevKernel_AllGather_RING_LL(args)", 400, 500, launched=50)
    path = write(session, joins(rank=3, size=4), moves(1024))
    trace = read([path])
    assert sizes(path) == [("all_gather", "0xabc", 4096)]
    assert trace.ranks == (3,)
    assert trace.meta.world_size == 4
    assert trace.meta.quality.unsized == 0
    assert trace.meta.quality.unknown == ()


def test_a_gather_of_an_unknown_number_of_ranks_has_no_size(session: SESSION) -> None:
    session.mark("ncclAllGather", 40, 60)
    session.kernel("ncclDevKernel_AllGather_RING_LL(args)", 400, 500, launched=50)
    assert sizes(write(session, moves(1024))) == [("all_gather", "0xabc", None)]


def test_the_only_call_of_a_group_launches_its_kernel(session: SESSION) -> None:
    session.mark("ncclAllReduce", 10, 20)
    session.mark("ncclGroupEnd", 40, 60)
    session.kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL(args)", 400, 500, launched=50)
    assert sizes(write(session, moves(1024))) == [("all_reduce", "0xabc", 1024)]


def test_several_calls_of_a_group_do_not_say_whose_kernel_it_is(session: SESSION) -> None:
    session.mark("ncclAllReduce", 10, 20)
    session.mark("ncclAllReduce", 20, 30)
    session.mark("ncclGroupEnd", 40, 60)
    session.kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL(args)", 400, 500, launched=50)
    assert sizes(write(session, moves(1024), moves(2048))) == [("all_reduce", None, None)]


def test_a_call_of_an_earlier_group_says_nothing_of_a_later_one(session: SESSION) -> None:
    session.mark("ncclAllReduce", 10, 20)
    session.mark("ncclGroupEnd", 22, 25)
    session.mark("ncclGroupEnd", 40, 60)
    session.kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL(args)", 400, 500, launched=50)
    assert sizes(write(session, moves(1024))) == [("all_reduce", None, None)]


def test_a_call_of_another_kind_says_nothing(session: SESSION) -> None:
    session.mark("ncclAllReduce", 40, 60)
    session.kernel("ncclDevKernel_AllGather_RING_LL(args)", 400, 500, launched=50)
    assert sizes(write(session, moves(1024))) == [("all_gather", None, None)]


@pytest.mark.parametrize(
    "told",
    [
        None,
        "text",
        b"",
        b"\0" * 32,
        moves(1024)[:-1],
        moves(1024) + b"\0",
        payload(99, b"\0" * 16),
    ],
)
def test_what_is_no_payload_says_nothing(told: object) -> None:
    assert unpack(told, SCHEMAS) == {}


def test_a_field_beyond_the_end_of_a_payload_is_not_read() -> None:
    short = payload(GATHER, struct.pack("<Q", COMM))
    assert unpack(short, SCHEMAS) == {"NCCL communicator ID": COMM}
