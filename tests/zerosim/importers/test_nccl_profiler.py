"""Logs of NCCL's profiler plugins give each collective from its first channel to its last."""

from __future__ import annotations

from pathlib import Path

import pytest

from zerosim.errors import TraceFileError
from zerosim.importers import read
from zerosim.trace import Flag

EXAMPLE = """[
{"name": "AllReduce", "cat": "COLL_API", "ph": "b", "id": 0, "pid": 7, "tid": 1, "ts": 0.000000},
{"name": "AllReduce", "cat": "COLL", "ph": "b", "id": 1, "pid": 7, "tid": 1, "ts": 10.5,\
 "args": {"SeqNum": 0, "CommHash": 18446744073709551615, "Rank": 1, "Count": 1024,\
 "Datatype": "ncclFloat32", "Algorithm": "RING", "Protocol": "LL", "nChannels": 2}},
{"name": "KernelCh", "cat": "GPU", "ph": "b", "id": 2, "pid": 7, "tid": 1, "ts": 11.0},
{"name": "KernelCh", "cat": "GPU", "ph": "e", "id": 2, "pid": 7, "tid": 1, "ts": 19.0},
{"name": "AllReduce", "cat": "COLL", "ph": "e", "id": 1, "pid": 7, "tid": 1, "ts": 20.25},
{"name": "Send", "cat": "P2P", "ph": "b", "id": 3, "pid": 7, "tid": 1, "ts": 30.0,\
 "args": {"CommHash": 18446744073709551615, "Rank": 1, "Peer": 0, "Count": 4, "Datatype": "ncclBfloat16"}},
"""


def test_the_example_plugins_list_that_is_never_closed_is_read(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    path.write_text(EXAMPLE)
    trace = read([path])
    assert trace.spans.select("rank", "kind", "group", "start_ns", "end_ns", "flags").rows() == [
        (1, "all_reduce", "18446744073709551615", 10_500, 20_250, 0),
        (1, "p2p", "18446744073709551615", 30_000, 30_000, Flag.UNTIMED),
    ]
    assert trace.spans.select("elements", "nbytes", "dtype").rows() == [
        (1024, 4096, "float32"),
        (4, 8, "bfloat16"),
    ]
    assert trace.meta.quality.events == 6


def test_bare_words_of_older_plugins_are_mended_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    path.write_text(
        EXAMPLE.replace('"RING"', "RING")
        .replace('"ncclFloat32"', "ncclFloat32")
        .replace('"Algorithm"', '"Buffer": 0x7f00, "Algorithm"')
    )
    trace = read([path])
    assert trace.spans["nbytes"].to_list() == [4096, 8]
    assert trace.meta.quality.repaired == 1


def test_the_full_tensor_of_a_gather_is_unknown_without_the_number_of_ranks(
    tmp_path: Path,
) -> None:
    path = tmp_path / "trace"
    path.write_text(EXAMPLE.replace("AllReduce", "AllGather"))
    trace = read([path])
    assert trace.spans["nbytes"].to_list() == [None, 8]
    assert trace.meta.quality.unsized == 1


def line(kind: str, address: str, parent: str, start: str, stop: str, details: str) -> str:
    return (
        f'{{"recordType":"event","type":"{kind}","commId":12,"rank":3,'
        f'"start":{{"ts":{start},"pid":7}},"stop":{{"ts":{stop},"pid":7}},'
        f'"parentObj":"{parent}","eventAddr":"{address}","details":{details}}}\n'
    )


LINES = (
    '{"type":"ProfilerLifecycle","func":"ProfilerInit","commId":12,"rank":3,'
    '"start":{"ts":1.5,"pid":7},"details":{"nranks":4}}\n'
    + line("ncclProfileCollApi", "a", "null", "9270729183210.25", "9270729183211", "{}")
    + line(
        *("ncclProfileColl", "b", "a", "9270729183212", "9270729183213"),
        '{"func":"AllGather","seq":0,"count":256,"dtype":"ncclHalf"}',
    )
    + line("ncclProfileKernelCh", "c", "b", "9270729183218.514", "9270729183220.001", "{}")
    + line("ncclProfileKernelCh", "d", "b", "9270729183217.125", "9270729183219", "{}")
)


def test_a_record_a_line_gives_collectives_by_their_channels(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    path.write_text(LINES)
    trace = read([path])
    assert trace.spans.select("rank", "kind", "issued_ns", "start_ns", "end_ns").rows() == [
        (3, "all_gather", 9_270_729_183_210_250, 9_270_729_183_217_125, 9_270_729_183_220_001)
    ]
    assert trace.spans.select("elements", "nbytes", "dtype").rows() == [(1024, 2048, "float16")]


def test_a_real_log_of_four_ranks_has_two_all_reduces_each(shared: Path) -> None:
    trace = read([shared / "pha-Z+nccl"])
    assert trace.meta.quality.events == 303
    assert trace.meta.world_size == 4
    assert trace.spans.group_by("rank").len().sort("rank").rows() == [
        *((0, 2), (1, 2), (2, 2), (3, 2))
    ]
    assert trace.spans["kind"].unique().to_list() == ["all_reduce"]
    assert trace.spans["nbytes"].unique().to_list() == [4 * 33_554_432]
    assert trace.spans["collective"].to_list() == [0, 1, 0, 1, 0, 1, 0, 1]
    # One process drove all four GPUs: its ranks have one clock, but what they did was seen late.
    assert not trace.meta.clock.aligned
    assert trace.meta.quality.warnings == (
        "ops of some ranks were noticed late, by at least 3.91 ms: collectives end before all came",
    )


def test_processes_of_one_log_have_clocks_of_their_own(tmp_path: Path) -> None:
    """The example plugin counts from where each process loaded it."""
    path = tmp_path / "trace"
    events = EXAMPLE.removeprefix("[\n")
    path.write_text("[\n" + events + events.replace('"Rank": 1', '"Rank": 0'))
    alone = read([path])
    assert (alone.ranks, alone.meta.clock.aligned) == ((0, 1), True)
    path.write_text(path.read_text().replace('"Rank": 0', '"Rank": 2') + _other_process(events))
    meta = read([path]).meta
    assert not meta.clock.aligned
    assert any("when their clocks started" in w for w in meta.quality.warnings)


def _other_process(events: str) -> str:
    return events.replace('"pid": 7', '"pid": 8').replace('"Rank": 1', '"Rank": 0')


def test_a_log_without_collectives_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    path.write_text('[\n{"cat": "GROUP", "ph": "b", "ts": 1},\n')
    with pytest.raises(TraceFileError, match="NCCL_PROFILE_EVENT_MASK"):
        read([path])
