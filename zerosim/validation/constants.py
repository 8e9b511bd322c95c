"""Which constants are fitted: of each device and launcher, by the names of the calibration document."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from zerosim.errors import UnknownNameError
from zerosim.hardware import MACHINES
from zerosim.hardware.calibration import Calibration, merged, shipped
from zerosim.hardware.constants import device_constants, launcher_constants
from zerosim.validation.predict import Predicted

_DEVICE: Final = ("efficiency", "attention_efficiency", "memory_efficiency", "launch_s")
_LAUNCHER: Final = ("kernel_s", "issue_s")
NAMES: Final = (*_DEVICE, *_LAUNCHER)
"""What can be fitted, in the words of the document."""
DEFAULT: Final = _DEVICE
ROWS_EACH: Final = 4
"""So many measured rows stand behind each constant of a device."""
_BOUNDS: Final = {
    "efficiency": (0.05, 1.0),
    "attention_efficiency": (0.02, 1.0),
    "memory_efficiency": (0.05, 2.0),
    "launch_s": (1e-6, 2e-5),
    "kernel_s": (1e-6, 1e-4),
    "issue_s": (1e-6, 1e-3),
}
"""Beyond these a constant is no longer what its name says."""


@dataclass(frozen=True, slots=True)
class Constant:
    """One number of the document: `kind` (device, launcher), whose, which, and where it may lie."""

    kind: str
    of: str
    name: str
    low: float
    high: float

    @property
    def inverse(self) -> bool:
        """Whether it is a share of a rate, so that time goes with one over it."""
        return self.name.endswith("efficiency")

    @property
    def label(self) -> str:
        """As people read it: `A100 SXM4 80GB efficiency`."""
        return f"{self.of} {self.name}"


def constants(found: Sequence[Predicted], names: Sequence[str] = DEFAULT) -> tuple[Constant, ...]:
    """The constants `names` of every device and launcher of these rows. Raises UnknownNameError.

    A device has one constant for every `ROWS_EACH` rows at most, the first ones, and one at least.
    """
    for name in names:
        if name not in NAMES:
            raise UnknownNameError("constant to fit", name, NAMES)
    rows = Counter(one.device for one in found)
    of_device = [name for name in names if name in _DEVICE]
    return (
        *(
            Constant("device", device, name, *_BOUNDS[name])
            for device, n in rows.items()
            for name in of_device[: max(1, n // ROWS_EACH)]
        ),
        *(
            Constant("launcher", launcher, name, *_BOUNDS[name])
            for launcher in dict.fromkeys(one.launcher for one in found)
            for name in names
            if name in _LAUNCHER
        ),
    )


def started(
    found: Sequence[Predicted], every: Sequence[Constant], base: Calibration | None = None
) -> Calibration:
    """A calibration that says all constants of these rows' devices and launchers, each for itself.

    A device that stood in for another is written out, and an attention that is to be fitted begins at
    what matrix products reach.
    """
    known = shipped() if base is None else merged(shipped(), base)
    device, launcher = dict(known.device), dict(known.launcher)
    apart = {constant.of for constant in every if constant.name == "attention_efficiency"}
    for one in found:
        machine = MACHINES[one.scenario.cluster.name]
        own = merged(known, machine.own)
        here = device_constants(machine.device, own)
        if machine.device.name in apart and here.attention_efficiency is None:
            here = replace(here, attention_efficiency=here.efficiency)
        device[machine.device.name] = here
        launcher[machine.launcher] = launcher_constants(machine.launcher, own)
    return Calibration(device, dict(known.fabric), launcher, dict(known.provenance))


def value(calibration: Calibration, constant: Constant) -> float:
    """The number, inside its bounds."""
    found: float = getattr(getattr(calibration, constant.kind)[constant.of], constant.name)
    return min(max(found, constant.low * 1.0001), constant.high * 0.9999)


def with_values(
    calibration: Calibration, every: Sequence[Constant], values: Sequence[float]
) -> Calibration:
    """The calibration with these numbers in it."""
    changes: dict[tuple[str, str], dict[str, Any]] = {}
    for constant, number in zip(every, values, strict=True):
        changes.setdefault((constant.kind, constant.of), {})[constant.name] = float(number)
    device: dict[str, Any] = dict(calibration.device)
    launcher: dict[str, Any] = dict(calibration.launcher)
    for (kind, of), changed in changes.items():
        table = device if kind == "device" else launcher
        table[of] = replace(table[of], **changed)
    return replace(calibration, device=device, launcher=launcher)
