"""The page of one's own machines: its files read, and every field and constant has its line."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

from zerosim.cluster import Link
from zerosim.hardware import Machine
from zerosim.hardware.calibration import (
    DeviceConstants,
    FabricConstants,
    LauncherConstants,
    calibration_from,
)
from zerosim.hardware.devices import Datasheet
from zerosim.hardware.machine_file import machine_from
from zerosim.toml_text import read_toml


def page(docs: Path) -> tuple[str, str, str]:
    text = (docs / "machines.md").read_text()
    machine, calibration = re.findall(r"^```toml\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return text, machine, calibration


def test_the_machine_of_the_page_is_one(docs: Path) -> None:
    _, text, constants = page(docs)
    given = calibration_from(read_toml(constants))
    cluster = machine_from(read_toml(text)).cluster(8, "bfloat16", given)
    assert (cluster.n_nodes, cluster.inter.busbw, cluster.device.efficiency) == (2, 46e9, 0.72)


def test_every_field_and_every_constant_has_its_line(docs: Path) -> None:
    text, *_ = page(docs)
    for record in (Machine, Datasheet, Link, DeviceConstants, FabricConstants, LauncherConstants):
        for field in fields(record):
            assert f"`{field.name}`" in text, f"{record.__name__}.{field.name}"
