"""A machine of one's own: every machine survives its TOML form, and bad ones are one sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from zerosim.errors import InputError
from zerosim.hardware import MACHINES
from zerosim.hardware.devices import H100_SXM5_80GB
from zerosim.hardware.machine_file import machine_from, machine_to, read_machine
from zerosim.toml_text import read_toml, write_toml

MINE = """\
name = "mine"
ranks_per_node = 4
[device]
use = "H100 SXM5 80GB"
[intra]
name = "nvlink"
busbw = 200e9
hop_s = 3e-6
[inter]
name = "roce"
busbw = 25e9
hop_s = 14e-6
"""


@pytest.mark.parametrize("name", list(MACHINES))
def test_every_machine_survives_its_toml_form(name: str) -> None:
    machine = MACHINES[name]
    assert machine_from(read_toml(write_toml(machine_to(machine)))) == machine


def test_a_short_file_is_a_machine_with_defaults(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(MINE)
    machine = read_machine(path)
    assert machine.device == H100_SXM5_80GB
    cluster = machine.cluster(8, "bfloat16")
    assert (cluster.n_nodes, cluster.inter.busbw, cluster.backend) == (2, 25e9, "nccl")
    assert cluster.sources["fabric"].startswith("none: the bandwidth between nodes is what")


def test_a_device_of_ones_own_brings_its_own_constants() -> None:
    text = MINE.replace('use = "H100 SXM5 80GB"', 'name = "X1"\narchitecture = "x"\n'
        "peak_flops = { float32 = 1e13, bfloat16 = 2e14 }\nmemory_bytes = 64e9\n"
        "memory_bandwidth = 1e12")  # fmt: skip
    text += '[own.device.X1]\nefficiency = 0.5\nlaunch_s = 0\nsource = "measured"\n'
    device = machine_from(read_toml(text)).cluster(4, "bfloat16").device
    assert (device.name, device.efficiency, device.peak_flops) == ("X1", 0.5, 2e14)
    assert device.memory_bytes == 64 * 10**9


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ('name = "mine"\n', "", "machine has no name: give one"),
        ('"mine"', '""', "machine: name is '': give some text"),
        ("ranks_per_node", "ranks_a_node", "no field of machine 'ranks_a_node': did you mean"),
        ("node = 4", "node = 0", "machine: ranks_per_node is 0: give a number above 0"),
        ("node = 4", "node = 4.5", "machine: ranks_per_node is 4.5: give a whole number"),
        ("node = 4", "node = true", "ranks_per_node is True: give a value of type int"),
        ("200e9", "inf", "machine: intra.busbw is inf: give a finite number"),
        ("200e9", "1e30", r"machine: intra.busbw is 1e\+30: give a number above 0, at most 1e\+20"),
        ("hop_s = 3e-6\n", "", "machine: intra has no hop_s: give one"),
        ("14e-6", "-1", "machine: inter.hop_s is -1: give a number of 0 or more, at most 1"),
        ('"roce"', '"nvlink"', "intra.name and inter.name are both 'nvlink'"),
        ("H100 SXM5 80GB", "H100", "no device 'H100': known: .*H100 SXM5 80GB"),
        ('use = "', 'sms = 1\nuse = "', "device.use is .*: leave out sms, or use"),
        ("[device]", "[device.use]", "machine: device.use is|no device"),
        ("[intra]", "[fabrics]\n[intra]", "no field of machine 'fabrics': did you mean 'fabric'"),
        ("[intra]", "[topology]\n[intra]", "machine: topology has no architecture: give one"),
        ("[intra]", "[[published]]\n[intra]", "no machine: published\\[0\\].kind 'None'"),
        ("[intra]", "[sources]\nx = 3\n[intra]", "sources.x is 3: give a value of type str"),
        ("[intra]", "[own.device]\nx = 3\n[intra]", "machine: own.device.x is 3: give a table"),
        (
            "[device]",
            'backend = "mpi"\n[device]',
            "no machine: backend 'mpi': known: gloo, gloo-all-to-all, nccl",
        ),
    ],
)
def test_a_bad_machine_is_one_sentence(old: str, new: str, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        machine_from(read_toml(MINE.replace(old, new, 1)))


def test_a_device_needs_rates_that_have_a_name() -> None:
    device = {"name": "X", "architecture": "x", "memory_bytes": 1, "memory_bandwidth": 1.0}
    record = read_toml(MINE) | {"device": device | {"peak_flops": {"bf16": 1e14}}}
    with pytest.raises(InputError, match=r"no rate of machine: device.peak_flops 'bf16'"):
        machine_from(record)
    record["device"]["peak_flops"] = {"bfloat16": 1e14}
    with pytest.raises(InputError, match=r"machine: device.peak_flops has no float32"):
        machine_from(record)


def test_what_is_no_table_is_one_sentence() -> None:
    with pytest.raises(InputError, match="machine is 3: give a table"):
        machine_from(3)
