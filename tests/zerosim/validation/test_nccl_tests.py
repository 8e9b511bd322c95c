"""Logs of nccl-tests: what they say is read, what they do not say is asked for, nonsense is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from zerosim.errors import MeasurementError
from zerosim.kinds import Kind
from zerosim.validation.measured import Timing
from zerosim.validation.nccl_json import read_json_log
from zerosim.validation.nccl_tests import Log, Said, read_log

RANKS = """# Using devices
#  Rank  0 Group  0 Pid   1111 on     node-a device  0 [0000:04:00] NVIDIA H100 80GB HBM3
#  Rank  1 Group  0 Pid   1112 on     node-a device  1 [0000:05:00] NVIDIA H100 80GB HBM3
#  Rank  2 Group  0 Pid   2111 on     node-b device  0 [0000:04:00] NVIDIA H100 80GB HBM3
#  Rank  3 Group  0 Pid   2112 on     node-b device  1 [0000:05:00] NVIDIA H100 80GB HBM3
"""
HEADER = """#
#                                                       out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)
"""
ROW = "     4194304       1048576      bf16    none      -1    50.00   83.89   62.91       0    40.00  104.86   78.64       0\n"
NEW = "# nccl-tests version 2.17.6 nccl-headers=22803 nccl-library=22807\n# Collective test starting: all_gather_perf\n"
OLD = """# nThread 1 nGpus 2 minBytes 1 maxBytes 8 step: 2(factor) warmup iters: 5 iters: 20 validation: 0
#   Rank  0 Pid 112372 on localhost device  0 [0x00] A100-SXM4-40GB
#   Rank  1 Pid 112372 on localhost device  1 [0x00] A100-SXM4-40GB
#       size         count    type   redop     time   algbw   busbw  error     time   algbw   busbw  error
#        (B)    (elements)                     (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
hostname:3442:3442 [0] NCCL INFO Launch mode Parallel
           0             0   float     sum    35.20    0.00    0.00    N/A    34.05    0.00    0.00    N/A
     4194304       1048576   float     sum    112.0   37.44   37.44    N/A    110.2   38.06   38.06    N/A
# Avg bus bandwidth    : 92.0
"""
NOTHING = Said()


def read(text: str, said: Said = NOTHING) -> Log:
    return read_log("a.log", text, said)


def test_a_row_is_two_timings_one_out_of_place_one_in_place() -> None:
    log = read(NEW + RANKS + HEADER + ROW)
    assert log.timings == (
        Timing(Kind.ALL_GATHER, 4, 2, 4194304, 50e-6, "bfloat16", in_place=False),
        Timing(Kind.ALL_GATHER, 4, 2, 4194304, 40e-6, "bfloat16", in_place=True),
    )
    assert (log.gpu, log.launcher, log.nccl) == (
        "NVIDIA H100 80GB HBM3",
        "process-per-gpu",
        "2.28.7",
    )


def test_an_old_log_has_no_root_and_does_not_name_its_collective() -> None:
    log = read(OLD, Said(kind=Kind.ALL_REDUCE))
    assert [t.seconds for t in log.timings] == [pytest.approx(112e-6), pytest.approx(110.2e-6)]
    assert log.timings[0].busbw == pytest.approx(37.44e9, rel=1e-3)
    assert (log.launcher, log.skipped) == ("one-process", 1)


def test_lines_that_mpirun_or_kubernetes_prefixes_are_read() -> None:
    text = "".join(
        f"[1,0]<stdout>:{line}" for line in (NEW + RANKS + HEADER + ROW).splitlines(True)
    )
    assert len(read(text).timings) == 2


def test_a_second_run_in_one_file_has_its_own_ranks() -> None:
    two = RANKS.replace("node-b", "node-a")
    log = read(NEW + RANKS + HEADER + ROW + NEW + two + HEADER + ROW)
    assert [t.n_nodes for t in log.timings] == [2, 2, 1, 1]


def test_what_a_log_does_not_say_is_asked_for() -> None:
    with pytest.raises(MeasurementError, match="does not name its collective: give --collective"):
        read(RANKS + HEADER + ROW)
    with pytest.raises(MeasurementError, match="does not list its ranks: give --ranks N"):
        read(NEW + HEADER + ROW)
    log = read(HEADER + ROW, Said(Kind.ALL_GATHER, n_ranks=4, n_nodes=2))
    assert (log.timings[0].n_ranks, log.timings[0].n_nodes) == (4, 2)


def test_a_collective_that_the_rates_contradict_is_refused() -> None:
    with pytest.raises(
        MeasurementError, match=r"busbw is 1\.000 of algbw, but 0\.500 for all_gather"
    ):
        read(OLD, Said(kind=Kind.ALL_GATHER))


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        ("   4194304       1048576      bf16    none      -1    50.00   83.89\n", "ends early"),
        ("   4194304       1048576\n   4194304       1048576      bf16\n", "ends early"),
        (ROW.replace("50.00", " 0.00"), "the time is 0.0 s: give one above 0"),
        (ROW.replace("50.00", "1e999"), "the time is inf s"),
        (ROW.replace("50.00", "  nan"), "the time is nan s"),
        (ROW.replace("50.00", "-5.00"), "the time is -5e-06 s"),
        (ROW.replace("     0 ", "   128 "), "128 elements came out wrong"),
        (ROW.replace("50.00", "5O.OO"), "'5O.OO' is no number"),
        (ROW.replace("4194304", "9" * 18), "bytes is 9"),
        ("\n", "has no table of nccl-tests"),
    ],
)
def test_a_row_that_cannot_be_true_is_refused_with_its_line(row: str, sentence: str) -> None:
    with pytest.raises(MeasurementError, match=sentence) as error:
        read(NEW + RANKS + HEADER + row)
    assert "\n" not in str(error.value)


def test_a_rate_that_no_link_has_is_refused() -> None:
    row = "  1099511627776 1 bf16 none -1  50.00  0.5  0.4  0  40.00  0.5  0.4  0\n"
    with pytest.raises(MeasurementError, match="more than any link carries: check the unit"):
        read(NEW + RANKS + HEADER + row)


def test_a_table_of_the_hosts_time_is_refused() -> None:
    with pytest.raises(MeasurementError, match=r"no column 'time'.*run without -C 1"):
        read(NEW + RANKS + HEADER.replace(" time ", " cputime ") + ROW)


def test_a_file_of_empty_lines_is_refused_before_they_are_read() -> None:
    with pytest.raises(MeasurementError, match="has more than 1000000 lines"):
        read("\n" * 1_000_001)


def test_bytes_that_are_no_log_are_refused() -> None:
    with pytest.raises(MeasurementError, match="has no table of nccl-tests"):
        read("\x1b[2J" * 1000)


def record(**changes: Any) -> str:
    side = {"time": 50.0, "alg_bw": 83.89, "bus_bw": 62.91, "nwrong": 0.0}
    row = {"size": 4194304, "count": 1048576, "type": "float", "redop": "none", "root": "    -1"}
    devices = [{"rank": i, "hostname": "ab"[i // 2], "device_info": "H100"} for i in range(4)]
    whole = {
        "version": 1,
        "args": ["/opt/nccl-tests/build/all_gather_perf", "-J", "out.json"],
        "env": ["SECRET=hunter2"],
        "nccl_version": 22807,
        "config": {"nthreads": 1, "ngpus": 1, "devices": devices},
        "results": [row | {"out_of_place": side, "in_place": None}],
    }
    return json.dumps(whole | changes)


def test_a_json_log_says_the_same() -> None:
    log = read_json_log("a.json", record(), NOTHING)
    assert log.timings == (
        Timing(Kind.ALL_GATHER, 4, 2, 4194304, 50e-6, "float32", in_place=False),
    )
    assert (log.gpu, log.launcher, log.nccl) == ("H100", "process-per-gpu", "2.28.7")
    assert "hunter2" not in repr(log)


def test_a_process_that_drives_eight_gpus_lists_one_device() -> None:
    config = {"nthreads": 1, "ngpus": 8, "devices": [{"hostname": "a", "device_info": "A100"}]}
    log = read_json_log("a.json", record(config=config), NOTHING)
    assert (log.timings[0].n_ranks, log.timings[0].n_nodes, log.launcher) == (8, 1, "one-process")


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"results": 3}, "has no 'results' of nccl-tests"),
        ({"results": []}, "has no times"),
        ({"results": ["x"]}, r"results\[0\] is 'x': give a table"),
        ({"results": [{"size": "big"}]}, "size is 'big': give whole bytes"),
        ({"results": [{"size": 8, "out_of_place": {"cpu_time": 1}}]}, "run without -C 1"),
        ({"results": [{"size": 8, "out_of_place": {"time": 1, "nwrong": 2}}]}, "2 elements came"),
        ({"results": [{"size": 8, "out_of_place": {"time": -1}}]}, "the time is -1e-06 s"),
        ({"args": []}, "give --collective"),
        ({"config": None}, "give --ranks"),
        ({"config": {"devices": [7]}}, "give --ranks"),
    ],
)
def test_a_json_log_that_cannot_be_true_is_refused(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(MeasurementError, match=sentence):
        read_json_log("a.json", record(**changes), NOTHING)


def test_a_json_log_cut_short_is_refused() -> None:
    with pytest.raises(MeasurementError, match=r"is no JSON .*run nccl-tests to its end"):
        read_json_log("a.json", record()[:-5], NOTHING)
