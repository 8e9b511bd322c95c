"""Which constants hold for a device, a network, a launcher: its own, or those of what stands in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from zerosim.errors import ScenarioError
from zerosim.hardware.calibration import (
    Calibration,
    DeviceConstants,
    FabricConstants,
    LauncherConstants,
)
from zerosim.hardware.devices import DEVICES, Datasheet
from zerosim.hardware.fabrics import LIKE

_NO_FABRIC: Final = FabricConstants(
    0.0, 1.0, "none: the bandwidth between nodes is what is reached"
)


def device_constants(sheet: Datasheet, known: Calibration) -> DeviceConstants:
    """The constants of a device, else of the one it is like, else of one of its architecture.

    Raises ScenarioError where nothing is known, with what to measure.
    """
    for name in _stand_ins(sheet):
        found = known.device.get(name)
        if found is not None:
            own = name == sheet.name
            return found if own else replace(found, source=f"as the {name}'s: {found.source}")
    raise ScenarioError(
        f"device '{sheet.name}' has no constants efficiency and launch_s, nor has any other "
        f"{sheet.architecture} device: time some matrix products, and give the share of the peak "
        f'they reach as [device."{sheet.name}"] in a --calibration file'
    )


def _stand_ins(sheet: Datasheet) -> Iterator[str]:
    yield sheet.name
    if sheet.like:
        yield sheet.like
    yield from (s.name for s in DEVICES.values() if s.architecture == sheet.architecture)


def fabric_constants(fabric: str, known: Calibration) -> FabricConstants:
    """The constants of a network, else of what is like it; none are needed where it has no name.

    Raises ScenarioError where nothing is known, with what to measure.
    """
    if not fabric:
        return _NO_FABRIC
    name = fabric
    while name not in known.fabric:
        if name not in LIKE:
            raise ScenarioError(
                f"network '{fabric}' has no constants net_latency_s and share: run nccl-tests on two "
                f"nodes and fit them with zerosim calibrate --collectives, or give "
                f'[fabric."{fabric}"] in a --calibration file'
            )
        name = LIKE[name]
    found = known.fabric[name]
    return found if name == fabric else replace(found, source=f"as {name}: {found.source}")


def launcher_constants(launcher: str, known: Calibration) -> LauncherConstants:
    """The constants of what launches the ranks. Raises ScenarioError where they are missing."""
    found = known.launcher.get(launcher)
    if found is None:
        raise ScenarioError(
            f"launcher '{launcher}' has no constant issue_s: time an all-reduce of some bytes, and "
            f'give what is over its latency as [launcher."{launcher}"] in a --calibration file'
        )
    return found
