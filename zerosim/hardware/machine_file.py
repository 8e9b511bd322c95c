"""A machine of one's own: the tables of its TOML form, read and checked, and written."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, Final, TypeVar, get_args, get_origin, get_type_hints

from zerosim.cluster import ARCHITECTURES, CPUS, INTRA_PATHS, Link, Topology
from zerosim.errors import ScenarioError, UnknownNameError
from zerosim.hardware.calibration import calibration_from
from zerosim.hardware.devices import DEVICES, Datasheet
from zerosim.hardware.machine import Machine
from zerosim.hardware.published import Published
from zerosim.hardware.toml_file import read_tables, table_in
from zerosim.kinds import Kind
from zerosim.units import DTYPE_BYTES

R = TypeVar("R")
RATES: Final = (*DTYPE_BYTES, "tf32")
"""Names of peak rates: torch's dtypes, and the rate of float32 products on tensor cores."""
_ONE_OF: Final = {
    "backend": ("nccl", "gloo", "gloo-all-to-all"),
    "intra": INTRA_PATHS,
    "cpu": CPUS,
    "split": ("calib", "test", "extra"),
}
_MOST: Final = {"int": 2**53, "float": 1e20}
"""Beyond any device's FLOP/s; products of them stay finite."""
_ZERO: Final = (
    "sms",
    "nvls_heads",
    "nvls_link",
    "nvls_ctas",
    "net_channels",
    "net_ctas",
    "tree_chunk",
)


def read_machine(path: Path) -> Machine:
    """The machine in a TOML file. Raises ScenarioError, UnknownNameError."""
    return machine_from(read_tables(path, "machine"), f"machine '{path.name}'")


def machine_from(record: object, where: str = "machine") -> Machine:
    """A machine from its tables. Raises ScenarioError, UnknownNameError; `where` names them."""
    tables = table_in(record, where)
    parts: dict[str, Callable[[object, str], Any]] = {
        "device": _device,
        "intra": lambda r, at: _record(Link, r, at),
        "inter": lambda r, at: _record(Link, r, at),
        "topology": _topology,
        "own": calibration_from,
        "published": _published,
    }
    read = {name: parts[name](tables[name], f"{where}: {name}") for name in parts if name in tables}
    machine: Machine = _record(Machine, tables, where, read)
    if not machine.name or not machine.name.isprintable():
        raise ScenarioError(f"{where}: name is {machine.name!r}: give some text")
    if machine.intra.name == machine.inter.name:
        raise ScenarioError(
            f"{where}: intra.name and inter.name are both '{machine.intra.name}': the links of a node "
            "and between nodes need names of their own"
        )
    return machine


def machine_to(machine: Machine) -> dict[str, Any]:
    """The tables of a machine; what is as by default, and what is empty, is left out."""
    tables = _told(machine)
    known = DEVICES.get(machine.device.name) == machine.device
    tables["device"] = {"use": machine.device.name} if known else _told(machine.device)
    for name in ("intra", "inter", "topology"):
        if name in tables:
            tables[name] = _told(tables[name])
    tables["own"] = machine.own.to_dict()
    tables["published"] = [_told(p) | {"kind": p.kind.value} for p in machine.published]
    return {name: value for name, value in tables.items() if value not in ({}, [])}


def _told(record: Any) -> dict[str, Any]:  # noqa: ANN401 - a record
    """The fields of a record that are not as by default."""
    told = {}
    for f in fields(record):
        value = getattr(record, f.name)
        empty = f.default_factory() if f.default_factory is not MISSING else f.default
        if (f.default is MISSING and f.default_factory is MISSING) or value != empty:
            told[f.name] = value
    return told


def _device(record: object, where: str) -> Datasheet:
    tables = table_in(record, where)
    if "use" in tables:
        if len(tables) > 1:
            raise ScenarioError(
                f"{where}.use is {tables['use']!r}, which says all about the device: leave out "
                f"{', '.join(sorted(set(tables) - {'use'}))}, or use"
            )
        name = tables["use"]
        if not isinstance(name, str) or name not in DEVICES:
            raise UnknownNameError("device", str(name), DEVICES)
        return DEVICES[name]
    return _with_rates(_record(Datasheet, tables, where), where)


def _with_rates(sheet: Datasheet, where: str) -> Datasheet:
    for name in sheet.peak_flops:
        if name not in RATES:
            raise UnknownNameError(f"rate of {where}.peak_flops", name, RATES)
    if "float32" not in sheet.peak_flops:
        raise ScenarioError(f"{where}.peak_flops has no float32: give its FLOP/s")
    return sheet


def _topology(record: object, where: str) -> Topology:
    found: Topology = _record(Topology, record, where)
    if found.architecture not in ARCHITECTURES:
        raise UnknownNameError(f"{where}.architecture", found.architecture, ARCHITECTURES)
    return found


def _published(record: object, where: str) -> tuple[Published, ...]:
    if not isinstance(record, list | tuple):
        raise ScenarioError(f"{where} is {record!r}: give a list of tables")
    return tuple(_figure(one, f"{where}[{i}]") for i, one in enumerate(record))


def _figure(record: object, where: str) -> Published:
    tables = table_in(record, where)
    kind = tables.get("kind")
    if kind not in set(Kind):
        raise UnknownNameError(f"{where}.kind", str(kind), Kind)
    return _record(Published, tables, where, {"kind": Kind(kind)})


def _record(cls: type[R], record: object, where: str, read: Mapping[str, Any] | None = None) -> R:
    """An instance of `cls` from a table, its names, types and numbers checked; `read` are done."""
    tables, done = table_in(record, where), read or {}
    hints = get_type_hints(cls)
    for name in tables:
        if name not in hints:
            raise UnknownNameError(f"field of {where}", name, hints)
    for f in fields(cls):  # type: ignore[arg-type]  # a dataclass, by the callers
        if f.default is MISSING and f.default_factory is MISSING and f.name not in tables:
            raise ScenarioError(f"{where} has no {f.name}: give one")
    values = {
        name: done[name] if name in done else _value(hints[name], name, value, where)
        for name, value in tables.items()
    }
    return cls(**values)


def _value(hint: Any, name: str, value: object, where: str) -> Any:  # noqa: ANN401 - types are data
    place = f"{where}.{name}" if ":" in where else f"{where}: {name}"
    if get_origin(hint) is dict:
        _, inner = get_args(hint)
        return {k: _value(inner, k, v, place) for k, v in table_in(value, place).items()}
    if hint is bool and isinstance(value, bool):
        return value
    if hint is str and isinstance(value, str):
        if name in _ONE_OF and value not in _ONE_OF[name]:
            raise UnknownNameError(place, value, _ONE_OF[name])
        return value
    if hint in (int, float) and isinstance(value, int | float) and not isinstance(value, bool):
        return _number(hint, name, value, place)
    raise ScenarioError(
        f"{place} is {value!r}: give a value of type {getattr(hint, '__name__', hint)}"
    )


def _number(hint: type[Any], name: str, value: float, place: str) -> Any:  # noqa: ANN401 - int or float
    if not abs(value) < math.inf or (hint is int and value != int(value)):
        raise ScenarioError(
            f"{place} is {value}: give a {'whole' if hint is int else 'finite'} number"
        )
    zero = name.endswith("_s") or name in _ZERO
    most = 1.0 if name.endswith("_s") else _MOST[hint.__name__]
    if not (0 <= value <= most and (zero or value > 0)):
        least = "of 0 or more" if zero else "above 0"
        raise ScenarioError(f"{place} is {value}: give a number {least}, at most {most:g}")
    return hint(value)
