"""The calibration: constants of devices, networks and launchers, read from a document and checked."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, TypeVar

from zerosim.cluster import Measured, OpTime
from zerosim.errors import ScenarioError, UnknownNameError
from zerosim.hardware.measured_series import series_from, series_to
from zerosim.hardware.op_times import op_times_from, op_times_to
from zerosim.hardware.toml_file import read_tables, table_in
from zerosim.toml_text import read_toml, write_toml

_KINDS: Final = ("device", "fabric", "launcher")
_MAX_S: Final = 1.0
"""No launch, hop or issue takes a second."""


@dataclass(frozen=True, slots=True)
class DeviceConstants:
    """Shares of the peak and of the memory bandwidth that a device reaches, and its launch time."""

    efficiency: float
    launch_s: float
    source: str
    attention_efficiency: float | None = None
    memory_efficiency: float = 1.0


@dataclass(frozen=True, slots=True)
class FabricConstants:
    """What a network adds to a collective, at each step and once, and the share of its rate it reaches.

    `host_busbw`: bytes a second that its hosts could push if links were free (None: any number), where
    the CPU moves them, and `computing_busbw` while they compute (None: as many). See Note [Two legs].
    """

    net_latency_s: float
    share: float
    source: str
    net_base_s: float = 0.0
    host_busbw: float | None = None
    computing_busbw: float | None = None

    def reached(self, rate: float) -> float:
        """Bytes a second that arrive over a link of `rate`.

        # Note [Two legs]
        A byte that the CPU moves takes the link's time and the host's. They neither add up nor hide
        behind each other, since each piece waits for the slower of two times that vary: their squares
        add up (assumed; 1 % at a quarter of the host's rate, 41 % at all of it).
        """
        return _two_legs(rate * self.share, self.host_busbw)

    def kept(self, rate: float) -> float:
        """The share of `reached` that is left while hosts compute."""
        if self.computing_busbw is None:
            return 1.0
        return min(1.0, _two_legs(rate * self.share, self.computing_busbw) / self.reached(rate))


def _two_legs(arrives: float, host: float | None) -> float:
    return arrives if host is None else 1 / math.hypot(1 / arrives, 1 / host)


@dataclass(frozen=True, slots=True)
class LauncherConstants:
    """What it costs the host to issue a collective and, beside it, a kernel.

    A process takes `each_s` for each GPU that it drives, and `channel_s` for each of NCCL's channels.
    A document that does not say `kernel_s` assumes 5 µs.
    """

    issue_s: float
    source: str
    kernel_s: float = 5e-6
    each_s: float = 0.0
    channel_s: float = 0.0


C = TypeVar("C", DeviceConstants, FabricConstants, LauncherConstants)


@dataclass(frozen=True, slots=True)
class Calibration:
    """Constants by name, measured series, and where the document is from. Empty: nothing is known."""

    device: dict[str, DeviceConstants] = field(default_factory=dict)
    fabric: dict[str, FabricConstants] = field(default_factory=dict)
    launcher: dict[str, LauncherConstants] = field(default_factory=dict)
    provenance: dict[str, str] = field(default_factory=dict)
    collective: tuple[Measured, ...] = ()
    op: tuple[OpTime, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """As tables of plain values; what is empty, and what is None, is left out."""
        tables: dict[str, Any] = {"provenance": dict(self.provenance)}
        for kind in _KINDS:
            found = getattr(self, kind)
            tables[kind] = {name: _present(asdict(found[name])) for name in found}
        tables["collective"] = series_to(self.collective)
        tables["op"] = op_times_to(self.op)
        return {name: table for name, table in tables.items() if table}


def calibration_from(record: object, where: str = "calibration") -> Calibration:
    """A calibration from its tables. Raises UnknownNameError, ScenarioError; `where` names them."""
    tables = table_in(record, where)
    for name in tables:
        if name not in (known := ("provenance", *_KINDS, "collective", "op")):
            raise UnknownNameError(f"table of {where}", name, known)
    said = table_in(tables.get("provenance", {}), f"{where}.provenance")
    for key, text in said.items():
        if not isinstance(text, str):
            raise ScenarioError(f"{where}.provenance.{key} is {text!r}: give some text")
    return Calibration(
        device=_constants(DeviceConstants, tables.get("device", {}), f"{where}.device"),
        fabric=_constants(FabricConstants, tables.get("fabric", {}), f"{where}.fabric"),
        launcher=_constants(LauncherConstants, tables.get("launcher", {}), f"{where}.launcher"),
        provenance=said,
        collective=series_from(tables.get("collective", ()), f"{where}.collective"),
        op=op_times_from(tables.get("op", ()), f"{where}.op"),
    )


def read_calibration(path: Path) -> Calibration:
    """The calibration in a TOML file. Raises ScenarioError, UnknownNameError."""
    return calibration_from(read_tables(path, "calibration"), f"calibration '{path.name}'")


def calibration_text(calibration: Calibration) -> str:
    """The document of a calibration, as `read_calibration` reads it."""
    return write_toml(calibration.to_dict())


@cache
def shipped() -> Calibration:
    """The calibration that zerosim comes with."""
    text = files("zerosim.hardware").joinpath("calibration.toml").read_text("utf-8")
    return calibration_from(read_toml(text))


def merged(base: Calibration, over: Calibration) -> Calibration:
    """`base` with the constants of `over` in the place of its own, name by name."""
    return Calibration(
        device=base.device | over.device,
        fabric=base.fabric | over.fabric,
        launcher=base.launcher | over.launcher,
        provenance=base.provenance | over.provenance,
        collective=(*over.collective, *base.collective),
        op=tuple({(op.kind, op.unit): op for op in (*base.op, *over.op)}.values()),
    )


def changed(base: Calibration, over: Calibration) -> Calibration:
    """What `over` says that `base` does not: all that a scenario needs to remember."""
    return replace(
        over,
        provenance={},
        device={k: v for k, v in over.device.items() if base.device.get(k) != v},
        fabric={k: v for k, v in over.fabric.items() if base.fabric.get(k) != v},
        launcher={k: v for k, v in over.launcher.items() if base.launcher.get(k) != v},
    )


def _constants(cls: type[C], record: object, where: str) -> dict[str, C]:
    return {
        name: _one(cls, table_in(found, f"{where}.{name}"), f'{where}."{name}"')
        for name, found in table_in(record, where).items()
    }


def _one(cls: type[C], record: Mapping[str, Any], where: str) -> C:
    known = {f.name: f for f in fields(cls)}
    for name in record:
        if name not in known:
            raise UnknownNameError(f"constant of {where}", name, known)
    for name, f in known.items():
        if f.default is MISSING and name not in record:
            raise ScenarioError(f"{where} has no {name}: give {_WANTED[name]}")
    return cls(**{name: _checked(name, value, where) for name, value in record.items()})


_WANTED: Final = {
    "efficiency": "the share of the peak that matrix products reach, above 0, at most 1",
    "attention_efficiency": "the share of the peak that attention reaches, above 0, at most 1",
    "memory_efficiency": "the share of the memory bandwidth that is reached, above 0, at most 2",
    "launch_s": "seconds a kernel takes beside its work, 0 to 1",
    "net_latency_s": "seconds that the network adds to each step between nodes, 0 to 1",
    "net_base_s": "seconds that the network adds to a collective, 0 to 1",
    "host_busbw": "bytes a second that hosts push where links are free, above 0",
    "computing_busbw": "bytes a second that hosts push while they compute, above 0",
    "share": "the share of the network cards' rate that arrives, above 0, at most 1",
    "issue_s": "seconds to issue a collective, 0 to 1",
    "kernel_s": "seconds to issue a kernel, 0 to 1",
    "each_s": "seconds that issuing takes for each GPU of a process, 0 to 1",
    "channel_s": "seconds that issuing takes for each GPU and channel, 0 to 1",
    "source": "where it is from: datasheet, measured, fitted on …, assumed",
}
_MOST: Final = {"memory_efficiency": 2.0, "host_busbw": 1e15, "computing_busbw": 1e15}
"""Caches answer some of the traffic, so that a fit may find more than the memory's own rate; rates are
bytes a second."""


def _checked(name: str, value: object, where: str) -> Any:  # noqa: ANN401 - a number or text
    if name == "source":
        if isinstance(value, str) and value.strip():
            return value
    elif isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < math.inf:
        most = _MAX_S if name.endswith("_s") else _MOST.get(name, 1.0)
        if 0 <= value <= most and (value > 0 or name.endswith("_s")):
            return float(value)
    raise ScenarioError(f"{where}.{name} is {value!r}: give {_WANTED[name]}")


def _present(record: Mapping[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in record.items() if v is not None}
