"""The calibration: read whole, refused in a sentence, merged by name, and what stands in for what."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from zerosim.errors import InputError
from zerosim.hardware import MACHINES
from zerosim.hardware.calibration import (
    Calibration,
    DeviceConstants,
    FabricConstants,
    calibration_from,
    calibration_text,
    changed,
    merged,
    read_calibration,
    shipped,
)
from zerosim.hardware.constants import device_constants, fabric_constants, launcher_constants
from zerosim.hardware.devices import A100_SXM4_80GB, H200_SXM_141GB, L40S_48GB
from zerosim.toml_text import read_toml

MINE = '[device."A100 SXM4 80GB"]\nefficiency = 0.5\nlaunch_s = 1e-5\nsource = "measured by me"\n'


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.toml"
    path.write_text(MINE)
    return path


def test_the_shipped_one_reads_back_from_its_own_text() -> None:
    assert calibration_from(read_toml(calibration_text(shipped()))) == shipped()


def test_every_shipped_constant_has_a_source() -> None:
    tables = (shipped().device, shipped().fabric, shipped().launcher)
    assert all(found.source for table in tables for found in table.values())


def test_constants_go_before_the_shipped_ones_and_reach_the_cluster(file: Path) -> None:
    device = MACHINES["dgx-a100"].cluster(8, "bfloat16", read_calibration(file)).device
    assert (device.efficiency, device.launch_s) == (0.5, 1e-5)
    sources = MACHINES["dgx-a100"].cluster(8, "bfloat16", read_calibration(file)).sources
    assert sources["efficiency"] == "measured by me"


def test_of_a_document_only_what_differs_is_new(file: Path) -> None:
    both = merged(shipped(), read_calibration(file))
    assert changed(shipped(), both).to_dict() == {
        "device": {
            "A100 SXM4 80GB": {
                "efficiency": 0.5,
                "launch_s": 1e-5,
                "source": "measured by me",
                "memory_efficiency": 1.0,
            }
        }
    }


def test_a_network_slows_down_to_its_share_and_adds_its_latencies() -> None:
    slow = Calibration(fabric={"EFA v2": FabricConstants(1e-6, 0.5, "assumed", net_base_s=3e-5)})
    cluster = MACHINES["aws-p5"].cluster(16, "bfloat16", slow)
    assert cluster.inter.busbw == 200e9
    assert cluster.topology is not None
    assert (cluster.topology.net_latency_s, cluster.topology.net_base_s) == (1e-6, 3e-5)


def test_a_device_takes_the_constants_of_its_architecture_and_says_so() -> None:
    known = Calibration(device={"H100 SXM5 80GB": DeviceConstants(0.7, 5e-6, "assumed")})
    assert device_constants(H200_SXM_141GB, known).source == "as the H100 SXM5 80GB's: assumed"


def test_a_device_takes_the_constants_of_the_one_it_is_like() -> None:
    known = Calibration(device={"A100 PCIe 80GB": DeviceConstants(0.7, 5e-6, "assumed")})
    assert device_constants(L40S_48GB, known).source == "as the A100 PCIe 80GB's: assumed"


def test_where_nothing_is_known_it_says_which_constant_and_how_to_measure_it() -> None:
    with pytest.raises(InputError, match=r"A100 SXM4 80GB' has no constants .*time some matrix"):
        device_constants(A100_SXM4_80GB, Calibration())
    with pytest.raises(InputError, match=r"network 'EFA v3' has no constants .*run nccl-tests"):
        fabric_constants("EFA v3", Calibration())
    with pytest.raises(InputError, match=r"launcher 'mpirun' has no constant .*time an all-reduce"):
        launcher_constants("mpirun", shipped())


def test_a_machine_without_constants_is_refused_when_it_is_used() -> None:
    odd = replace(A100_SXM4_80GB, name="Odd GPU", architecture="odd")
    machine = replace(MACHINES["dgx-a100"], device=odd)
    with pytest.raises(
        InputError, match=r"device 'Odd GPU' has no constants .*nor has any other odd"
    ):
        machine.cluster(8, "bfloat16")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[devices]", r"no table of calibration 'bad.toml' 'devices': did you mean 'device'\?"),
        ('device = "x"', "calibration 'bad.toml'.device is 'x': give a table"),
        ('[device]\n"A" = 3', "calibration 'bad.toml'.device.A is 3: give a table"),
        ('[device."A"]\nlaunch_s = 1e-6\nsource = "x"', '"A" has no efficiency: give the share'),
        (MINE + "efficency = 1", "no constant of .* 'efficency': did you mean 'efficiency'"),
        (MINE.replace("0.5", "1.5"), "efficiency is 1.5: give the share of the peak"),
        (MINE.replace("0.5", "0"), "efficiency is 0: give the share of the peak"),
        (MINE.replace("0.5", "nan"), "efficiency is nan: give the share of the peak"),
        (MINE.replace("0.5", "true"), "efficiency is True: give the share of the peak"),
        (MINE.replace("0.5", '"half"'), "efficiency is 'half': give the share of the peak"),
        (MINE.replace("1e-5", "-1e-5"), "launch_s is -1e-05: give seconds"),
        (MINE.replace("1e-5", "3.0"), "launch_s is 3.0: give seconds"),
        (MINE.replace("measured by me", " "), "source is ' ': give where it is from"),
        ("[provenance]\nfitted = 3", "provenance.fitted is 3: give some text"),
        ("[device", r"cannot read calibration '.*bad.toml' \(.*end of document.*\): mend the file"),
        ("x = " + "[" * 10_000, r"cannot read calibration '.*bad.toml' \(.*\): mend the file"),
        (f"a{'.a' * 10_000} = 1", "Key of over 50 parts"),
        ("#" * (2**20 + 1), "is over 1048576 bytes, so no calibration"),
    ],
)
def test_a_bad_document_is_one_sentence(tmp_path: Path, text: str, sentence: str) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(text)
    with pytest.raises(InputError, match=sentence):
        read_calibration(path)


def test_a_file_that_is_none_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no file '.*' with a calibration: check the path"):
        read_calibration(tmp_path / "none.toml")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="cannot read calibration"):
        read_calibration(tmp_path / "binary.toml")
