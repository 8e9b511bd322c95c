"""Own measurements as a calibration: series that a table model reads off, and the links they imply."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.zerosim.validation.test_nccl_tests import HEADER, NEW, RANKS, ROW, record
from zerosim.cluster import Measured
from zerosim.collectives import transfer
from zerosim.errors import MeasurementError
from zerosim.hardware import MACHINES
from zerosim.hardware.calibration import calibration_from, calibration_text
from zerosim.kinds import Kind
from zerosim.toml_text import read_toml
from zerosim.validation.measured import Timing
from zerosim.validation.measuring import calibration_of, link_rates, reached, read_measured
from zerosim.validation.nccl_tests import Log, Said

LOG = Log(
    (
        Timing(Kind.ALL_GATHER, 8, 1, 2**20, 40e-6),
        Timing(Kind.ALL_GATHER, 8, 1, 2**30, 4e-3, in_place=False),
        Timing(Kind.ALL_GATHER, 8, 1, 2**30, 4.2e-3, in_place=True),
        Timing(Kind.ALL_REDUCE, 8, 1, 2**30, 8e-3),
        Timing(Kind.ALL_GATHER, 16, 2, 2**30, 10e-3),
    ),
    gpu="A100",
    nccl="2.18.3",
)


def test_a_size_takes_the_median_of_its_times() -> None:
    series = calibration_of([LOG], None, "me").collective
    assert series[0] == Measured("all_gather", 8, 1, ((2**20, 40e-6), (2**30, 4.1e-3)), "me")
    assert [(s.kind, s.n_ranks, s.n_nodes) for s in series[1:]] == [
        ("all_reduce", 8, 1),
        ("all_gather", 16, 2),
    ]


def test_rings_say_what_the_links_reach() -> None:
    rates = link_rates(calibration_of([LOG], None, "me"))
    assert rates["intra_busbw"] == pytest.approx(2**30 / 4.1e-3 * 7 / 8)
    assert rates["inter_busbw"] == pytest.approx(2**30 / 10e-3 * 15 / 16)


def test_what_a_series_reaches_is_said_at_its_ends() -> None:
    reach = reached(calibration_of([LOG], None, "me"))[0]
    assert (reach.smallest, reach.latency_s, reach.largest) == (2**20, 40e-6, 2**30)


def test_a_calibration_written_and_read_again_is_the_same_and_times_come_off_it() -> None:
    made = calibration_of([LOG], None, "me")
    again = calibration_from(read_toml(calibration_text(made)))
    assert again == made
    cluster = MACHINES["dgx-a100"].cluster(8, "bfloat16", again)
    table = replace(cluster, collectives="table")
    assert transfer(Kind.ALL_GATHER, 2**20, 8, table).alone_ns == 40_000


def test_no_host_path_or_time_of_day_is_in_a_calibration(tmp_path: Path) -> None:
    path = tmp_path / "secret-place.log"
    path.write_text(NEW + RANKS + HEADER + ROW)
    text = calibration_text(calibration_of([read_measured(path, Said())], None, "me"))
    assert "node-a" not in text
    assert "secret-place" not in text
    assert 'gpu = "NVIDIA H100 80GB HBM3"' in text


@pytest.mark.parametrize(
    ("content", "n"),
    [
        (NEW + RANKS + HEADER + ROW, 2),
        (record(), 1),
        ("collective,ranks,nodes,bytes,time_us\nall_gather,8,1,1024,12\n", 1),
    ],
    ids=["text", "json", "csv"],
)
def test_a_file_is_read_as_what_it_holds(tmp_path: Path, content: str, n: int) -> None:
    path = tmp_path / "any"
    path.write_text(content)
    assert len(read_measured(path, Said()).timings) == n


def test_logs_of_several_machines_are_refused(tmp_path: Path) -> None:
    other = Log(LOG.timings, gpu="H100")
    with pytest.raises(MeasurementError, match="the logs are of A100 and of H100: give one"):
        calibration_of([LOG, other], None, "me")
    path = tmp_path / "a.csv"
    rows = "a,all_gather,8,1,1024,12\nb,all_gather,8,1,1024,12\n"
    path.write_text("series_id,collective,ranks,nodes,bytes,time_us\n" + rows)
    with pytest.raises(MeasurementError, match=r"has 2 series \(a, b, …\): give one machine's"):
        read_measured(path, Said())


def test_nodes_that_no_log_lists_are_asked_for() -> None:
    unsaid = Log((Timing(Kind.ALL_GATHER, 8, None, 2**20, 40e-6),))
    with pytest.raises(MeasurementError, match="on how many nodes: give --nodes N"):
        calibration_of([unsaid], None, "me")
    assert calibration_of([unsaid], 2, "me").collective[0].n_nodes == 2


def test_letters_that_steer_a_terminal_do_not_come_through() -> None:
    made = calibration_of([Log(LOG.timings, gpu="A100\x1b[2J\nrm")], None, "me\x07")
    assert made.provenance["gpu"] == "A100 [2J rm"
    assert made.provenance["source"] == "me"
